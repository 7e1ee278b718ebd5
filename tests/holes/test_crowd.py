# SPDX-License-Identifier: BSD-2-Clause
"""The crowd itself: what it shows of locks must not come from how its workers begin and end."""
from crowd import Crowd
from nodes import Group, urls


def test_ended_at_once(directory):
    """A worker that is ended before it is ready ends well."""
    with Group(3) as nodes:
        for _ in range(10):
            with Crowd(directory, "classic", 1000) as crowd:
                crowd.start(urls(nodes))
