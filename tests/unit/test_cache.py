"""The byte budget of the cache."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from hudi_vector.read.cache import ByteCache, process_cache


def filled(budget: int, **sizes: int) -> ByteCache:
    cache = ByteCache(budget)
    for key, size in sizes.items():
        cache.put(key, key.upper(), size)
    return cache


def test_what_fits_is_kept() -> None:
    cache = filled(100, a=60, b=40)
    assert cache.get("a") == "A"
    assert cache.get("b") == "B"
    assert cache.get("c") is None
    assert cache.nbytes == 100
    assert cache.budget == 100


def test_the_least_recently_used_leaves_first() -> None:
    cache = filled(100, a=40, b=40)
    cache.get("a")
    cache.put("c", "C", 40)
    assert cache.get("b") is None
    assert cache.get("a") == "A"
    assert cache.nbytes == 80


def test_what_alone_is_too_large_drives_nothing_out() -> None:
    cache = filled(100, a=60)
    cache.put("b", "B", 101)
    assert cache.get("b") is None
    assert cache.get("a") == "A"


def test_a_key_put_again_counts_once() -> None:
    cache = filled(100, a=60)
    cache.put("a", "new", 50)
    assert cache.get("a") == "new"
    assert cache.nbytes == 50


def test_a_smaller_budget_forgets() -> None:
    cache = filled(100, a=30, b=30, c=30)
    cache.resize(60)
    assert cache.get("a") is None
    assert cache.nbytes == 60
    cache.resize(0)
    assert cache.nbytes == 0
    cache.put("d", "D", 1)
    assert cache.get("d") is None


def test_clear() -> None:
    cache = filled(100, a=30)
    cache.clear()
    assert cache.get("a") is None
    assert cache.nbytes == 0


def test_threads_keep_the_account_right() -> None:
    cache = ByteCache(1000)

    def work(seed: int) -> None:
        numbers = random.Random(seed)
        for _ in range(2000):
            key = numbers.randrange(50)
            if numbers.random() < 0.5:
                cache.put(key, key, numbers.randrange(1, 200))
            else:
                assert cache.get(key) in (None, key)
            assert cache.nbytes <= 1000 + 200

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert cache.nbytes == sum(size for _, size in cache._entries.values()) <= 1000


def test_a_process_has_one() -> None:
    assert process_cache() is process_cache()
