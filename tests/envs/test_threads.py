import threading
import time

import numpy as np
import pytest

from ucpo.envs.threads import Shares, processors


@pytest.mark.parametrize(("rows", "threads"), [(1, 4), (5, 1), (5, 2), (5, 5), (8, None)])
def test_every_row_is_worked_on_once(rows, threads):
    shares = Shares(rows, threads)
    counts = np.zeros(rows, np.int64)
    for _ in range(3):
        shares.each(lambda mine: np.add.at(counts, mine, 1))
    assert counts.tolist() == [3] * rows
    shares.close()


def test_shares_are_worked_on_at_once():
    shares = Shares(3, 3)
    meeting = threading.Barrier(3, timeout=10.0)  # breaks unless all three are there together
    shares.each(lambda mine: meeting.wait())
    shares.close()


@pytest.mark.parametrize(("seconds", "sharing"), [(0.0, False), (0.004, True)])
def test_threads_are_used_by_default_only_where_the_work_is_worth_it(seconds, sharing, monkeypatch):
    monkeypatch.setattr("ucpo.envs.threads.processors", lambda: 2)
    shares = Shares(2)
    workers = []

    def work(mine):
        time.sleep(seconds)
        workers.append((threading.get_ident(), mine.tolist()))

    for _ in range(15):
        shares.each(work)
    assert (len({worker for worker, _ in workers}) > 1) == sharing
    assert sorted(row for _, rows in workers for row in rows) == [0] * 15 + [1] * 15
    shares.close()


def test_a_failure_in_any_share_is_raised():
    shares = Shares(2, 2)

    def fail(mine):
        if 1 in mine:
            raise ArithmeticError("row 1")

    with pytest.raises(ArithmeticError, match="row 1"):
        shares.each(fail)
    shares.close()


def test_there_is_at_least_one_processor():
    assert processors() >= 1
