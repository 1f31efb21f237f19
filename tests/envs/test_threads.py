import gc
import threading
import time
from functools import partial

import pytest

from ucpo.envs.native import claim, finish
from ucpo.envs.threads import Shares, processors


def rows_of(waiting, thread):
    """Take rows, one after the other, and do them."""
    while (row := claim(waiting, thread)) >= 0:
        yield row
        finish(waiting)


@pytest.mark.parametrize(("rows", "threads"), [(1, 4), (5, 1), (5, 2), (5, 5), (8, None)])
def test_every_row_is_worked_on_once(rows, threads):
    shares = Shares(rows, threads)
    done = []
    for _ in range(3):
        shares.each(lambda *mine: done.extend(rows_of(*mine)))
    assert sorted(done) == sorted([*range(rows)] * 3)
    shares.close()


def test_shares_are_worked_on_at_once():
    shares = Shares(3, 3)
    meeting = threading.Barrier(3, timeout=10.0)  # breaks unless all three are there together
    shares.each(lambda *mine: [meeting.wait() for _ in rows_of(*mine)])
    shares.close()


def test_rows_stay_with_their_thread_unless_it_is_late():
    shares = Shares(8, 2)
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

    shares.each(work)
    assert by_thread == {0: [0, 1, 2, 3, 5, 6, 7], 1: [4]}
    shares.close()


def test_nobody_goes_on_before_the_last_row_is_done():
    shares = Shares(2, 2)
    done = []

    def work(waiting, thread):
        for row in rows_of(waiting, thread):
            time.sleep(0.02 * row)  # far longer than anybody looks without a rest
            done.append(row)

    for _ in range(3):
        shares.each(work)
        assert sorted(done) == [0, 1]
        done.clear()
    shares.close()


@pytest.mark.parametrize(("seconds", "sharing"), [(0.0, False), (0.004, True)])
def test_threads_are_used_by_default_only_where_the_work_is_worth_it(seconds, sharing, monkeypatch):
    monkeypatch.setattr("ucpo.envs.threads.processors", lambda: 2)
    shares = Shares(2)
    workers = []

    def work(waiting, thread):
        for row in rows_of(waiting, thread):
            time.sleep(seconds)
            workers.append((threading.get_ident(), row))

    for _ in range(15):
        shares.each(work)
    assert (len({worker for worker, _ in workers}) > 1) == sharing
    assert sorted(row for _, row in workers) == [0] * 15 + [1] * 15
    shares.close()


def test_a_failure_in_any_share_is_raised():
    shares = Shares(2, 2)

    def fail(waiting, thread):
        if thread == 1:
            raise ArithmeticError("thread 1")
        next(rows_of(waiting, thread))  # and leaves the other row to the other thread

    with pytest.raises(ArithmeticError, match="thread 1"):
        shares.each(fail)
    shares.close()


def test_a_failure_of_all_is_raised_once():
    shares = Shares(2, 2)

    def fail(waiting, thread):
        raise ArithmeticError(f"thread {thread}")

    for _ in range(3):
        with pytest.raises(ArithmeticError, match="thread 0"):
            shares.each(fail)
        # The second row takes longer, so whoever waits for it would meet an old failure.
        shares.each(lambda *mine: [time.sleep(0.01 * row) for row in rows_of(*mine)])
    shares.close()


def work_for(_shares, *mine):
    """A job that knows whose it is, as those of tasks do."""
    assert all(row in (0, 1) for row in rows_of(*mine))


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_threads_end_with_what_they_were_for(how):
    before = set(threading.enumerate())
    shares = Shares(2, 2)
    shares.each(partial(work_for, shares))
    (helper,) = set(threading.enumerate()) - before
    if how == "closed":
        shares.close()
    del shares
    gc.collect()
    helper.join(10.0)
    assert not helper.is_alive()


def test_there_is_at_least_one_processor():
    assert processors() >= 1
