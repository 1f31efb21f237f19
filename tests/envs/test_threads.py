import gc
import threading
import time
import timeit
from functools import partial

import numpy as np
import pytest

from ucpo.envs.native import claim, claim_or_stay, finish, leave, must_be_woken, refill
from ucpo.envs.threads import Shares, processors


def rows_of(waiting, thread):
    """Take rows, one after the other, and do them."""
    while (row := claim(waiting, thread)) >= 0:
        yield row
        finish(waiting)


@pytest.mark.parametrize(("rows", "threads"), [(1, 4), (5, 1), (5, 2), (5, 5), (8, None)])
def test_every_row_is_worked_on_once(rows, threads):
    done = []
    shares = Shares(lambda *mine: done.extend(rows_of(*mine)), rows, threads)
    for _ in range(3):
        shares.each()
    assert sorted(done) == sorted([*range(rows)] * 3)
    shares.close()


def test_shares_are_worked_on_at_once():
    meeting = threading.Barrier(3, timeout=10.0)  # breaks unless all three are there together
    shares = Shares(lambda *mine: [meeting.wait() for _ in rows_of(*mine)], 3, 3)
    for _ in range(50):
        shares.each()
    shares.close()


def test_rows_stay_with_their_thread_unless_it_is_late():
    by_thread = {0: [], 1: []}
    begun, through = threading.Event(), threading.Event()

    def work(waiting, thread):
        """The helper is held up in its first row until all the others are done."""
        if thread == 0:
            begun.wait(10.0)
        for row in rows_of(waiting, thread):
            by_thread[thread].append(row)
            if thread == 1:
                begun.set()
                through.wait(10.0)
        through.set()

    shares = Shares(work, 8, 2)
    shares.each()
    assert by_thread == {0: [0, 1, 2, 3, 5, 6, 7], 1: [4]}
    shares.close()


def test_nobody_goes_on_before_the_last_row_is_done():
    done = []

    def work(waiting, thread):
        for row in rows_of(waiting, thread):
            time.sleep(0.02 * row)  # far longer than anybody looks without a rest
            done.append(row)

    shares = Shares(work, 2, 2)
    for _ in range(3):
        shares.each()
        assert sorted(done) == [0, 1]
        done.clear()
    shares.close()


@pytest.mark.parametrize(("seconds", "sharing"), [(0.0, False), (0.004, True)])
def test_threads_are_used_by_default_only_where_the_work_is_worth_it(seconds, sharing, monkeypatch):
    monkeypatch.setattr("ucpo.envs.threads.processors", lambda: 2)
    workers = []

    def work(waiting, thread):
        for row in rows_of(waiting, thread):
            time.sleep(seconds)
            workers.append((threading.get_ident(), row))

    shares = Shares(work, 2)
    for _ in range(15):
        shares.each()
    assert (len({worker for worker, _ in workers}) > 1) == sharing
    assert sorted(row for _, row in workers) == [0] * 15 + [1] * 15
    shares.close()


def test_a_failure_in_any_share_is_raised():
    def fail(waiting, thread):
        if thread == 1:
            raise ArithmeticError("thread 1")
        next(rows_of(waiting, thread))  # and leaves the other row to the other thread

    shares = Shares(fail, 2, 2)
    with pytest.raises(ArithmeticError, match="thread 1"):
        shares.each()
    shares.close()


def test_a_failure_of_all_is_raised_once():
    works = False

    def work(waiting, thread):
        for row in rows_of(waiting, thread) if works else ():
            # The second row takes longer, so whoever waits for it would meet an old failure.
            time.sleep(0.01 * row)
        if not works:
            raise ArithmeticError(f"thread {thread}")

    shares = Shares(work, 2, 2)
    for _ in range(3):
        works = False
        with pytest.raises(ArithmeticError, match="thread 0"):
            shares.each()
        works = True
        shares.each()
    shares.close()


def test_after_a_failure_nobody_goes_on_with_rows_of_before():
    failing, begun, through = True, threading.Event(), threading.Event()
    done = []

    def work(waiting, thread):
        for row in rows_of(waiting, thread):
            if failing and thread == 1:
                begun.set()
                through.wait(10.0)
            elif failing:
                begun.wait(10.0)
                raise ArithmeticError
            done.append(row)

    shares = Shares(work, 8, 2)
    with pytest.raises(ArithmeticError):
        shares.each()
    through.set()
    time.sleep(0.05)
    assert done == [4]  # which the helper had begun with
    failing = False
    shares.each()
    assert sorted(done[1:]) == list(range(8))
    shares.close()


def test_a_helper_that_stays_is_not_called_and_one_that_left_is():
    waiting = np.array([[4, 8], [4, 8], [8, 0], [0, 0]])
    refill(waiting, np.array([0, 4]))
    assert must_be_woken(waiting, 1) and not must_be_woken(waiting, 1)
    assert [claim_or_stay(waiting, 1) for _ in range(8)] == [4, 5, 6, 7, 0, 1, 2, 3]
    assert claim_or_stay(waiting, 1) == -1 and leave(waiting, 1)
    refill(waiting, np.array([0, 4]))
    assert must_be_woken(waiting, 1)


def test_a_helper_does_not_leave_while_rows_are_waiting():
    waiting = np.array([[4, 8], [4, 8], [8, 0], [0, 1]])
    refill(waiting, np.array([0, 4]))
    assert not must_be_woken(waiting, 1)  # who refills relies on it
    assert not leave(waiting, 1) and not must_be_woken(waiting, 1)


def test_a_helper_looks_for_rows_of_the_next_step_for_a_while():
    waiting = np.array([[4, 8], [4, 8], [8, 0], [0, 1]])

    def shortest(thread):
        calls = timeit.repeat(lambda: claim_or_stay(waiting, thread), number=1, repeat=20)
        return min(calls)

    assert shortest(1) > 5 * shortest(0)  # who has called it has other things to do


def work_for(_owner, *mine):
    """A job that knows whose it is, as those of tasks do."""
    assert all(row in (0, 1) for row in rows_of(*mine))


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_threads_end_with_what_they_were_for(how):
    before = set(threading.enumerate())
    owner = []
    shares = Shares(partial(work_for, owner), 2, 2)
    owner.append(shares)
    shares.each()
    (helper,) = set(threading.enumerate()) - before
    if how == "closed":
        shares.close()
    del shares, owner
    for _ in range(100):  # a helper keeps what it works on until it has looked for more
        gc.collect()
        helper.join(0.1)
        if not helper.is_alive():
            return
    pytest.fail("the helper is still there")


def test_there_is_at_least_one_processor():
    assert processors() >= 1
