# SPDX-License-Identifier: BSD-2-Clause
"""Stands in for redis-py's own tests/conftest.py: its test_lock.py, unchanged, against the gateway at GATEWAY_URL. Which of its tests
do not apply to a gateway, and which need a client that says a little more than they do, and why, is all here."""
import os
import time

import pytest
import redis

NO_END = "a lock without an end: here every lock has a time to live, and SET without one is refused"
SHORTENS = "an expiry that is shortened: here it never is"
NOT_HERE = {
    "test_lock": NO_END,
    "test_lock_token": NO_END,
    "test_lock_token_thread_local_false": NO_END,
    "test_extending_lock_with_no_timeout_raises_error": NO_END,
    "test_reacquiring_lock_with_no_timeout_raises_error": NO_END,
    "test_context_manager_reacquiring_lock_with_no_timeout_raises_error": NO_END,
    "test_reacquire_lock": SHORTENS,
}

TIMEOUT = "a lock without a timeout gets one of 10 s, as a user of the gateway has to write"
PLAIN_SET = "SET over the lock, by which the test makes it another's, becomes DEL and SET NX PX"
SAYS_MORE = {
    "test_locked": TIMEOUT,
    "test_owned": TIMEOUT,
    "test_owned_with_decoded_responses": TIMEOUT,
    "test_competing_locks": TIMEOUT,
    "test_blocking_timeout": TIMEOUT,
    "test_context_manager": TIMEOUT,
    "test_context_manager_blocking_timeout": TIMEOUT,
    "test_high_sleep_small_blocking_timeout": TIMEOUT,
    "test_releasing_lock_no_longer_owned_raises_error": f"{TIMEOUT}; {PLAIN_SET}",
    "test_context_manager_raises_when_locked_not_acquired": f"{TIMEOUT}; {PLAIN_SET}",
    "test_lock_error_gives_correct_lock_name": f"{TIMEOUT}; {PLAIN_SET}",
    "test_extending_lock_no_longer_owned_raises_error": PLAIN_SET,
    "test_reacquiring_lock_no_longer_owned_raises_error": PLAIN_SET,
    "test_context_manager_reacquiring_lock_no_longer_owned_raises_error": PLAIN_SET,
}
TRIES = 20


class Client(redis.Redis):
    """redis-py as it is. "Cannot be known" is asked again: two of the nodes are gone, and a third may be busy."""

    def execute_command(self, *words, **options):
        for left in range(TRIES, 0, -1):
            try:
                return super().execute_command(*words, **options)
            except redis.ResponseError as error:
                if not str(error).startswith("NOQUORUM") or left == 1:
                    raise
                time.sleep(0.1)
        raise AssertionError


class ClientThatSaysMore(Client):
    def lock(self, name, timeout=None, **more):
        return super().lock(name, timeout=10 if timeout is None else timeout, **more)

    def set(self, name, value, **more):
        if "nx" not in more:
            self.delete(name)
            more = {"nx": True, "px": 10000}
        return super().set(name, value, **more)


def pytest_collection_modifyitems(config, items):
    names = {item.originalname for item in items}
    if unknown := (NOT_HERE.keys() | SAYS_MORE.keys()) - names:
        raise pytest.UsageError(f"redis-py has no such tests any more: {', '.join(sorted(unknown))}")
    left_out = [item for item in items if item.originalname in NOT_HERE]
    items[:] = [item for item in items if item.originalname not in NOT_HERE]
    config.hook.pytest_deselected(items=left_out)


def _get_client(_, request, **options):
    """As theirs, which also empties the server: here the one key that is used is deleted."""
    kind = ClientThatSaysMore if request.node.originalname in SAYS_MORE else Client
    client = kind.from_url(os.environ["GATEWAY_URL"], **options)
    request.addfinalizer(lambda: (client.delete("foo"), client.close()))
    return client


@pytest.fixture
def r(request):
    return _get_client(redis.Redis, request)
