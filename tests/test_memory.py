"""A limit on memory decides on the solver, and sends tall arrays to files; it changes no number."""

import mmap
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dkpca import DKPCA
from dkpca.errors import InputError
from dkpca.linalg import arrays, rows
from dkpca.linalg import precision as tall
from dkpca.linalg.arrays import free_memory
from dkpca.linalg.precision import Rounded
from dkpca.store import runs, storage


@pytest.mark.parametrize(
    ("amount", "size"), [("8GB", 8 * 10**9), ("1.5 gb", 15 * 10**8), ("512MiB", 512 * 10**6), (10**9, 10**9)]
)
def test_amounts_are_read_as_people_write_them(amount, size):
    assert arrays.as_bytes(amount) == size


@pytest.mark.parametrize(
    ("amount", "said"), [("a lot", "such as '8GB'"), ("8XB", "such as '8GB'"), ("5MB", "too little")]
)
def test_what_is_no_amount_is_refused(amount, said):
    with pytest.raises(InputError, match=said):
        arrays.MemoryLimit.of(amount)
    with pytest.raises(InputError, match=said):
        DKPCA(2, max_memory=amount).fit(np.random.default_rng(0).standard_normal((20, 3)))


class TestTallArrays:
    def test_half_of_the_memory_is_for_them_and_the_rest_lies_in_files_without_a_name(self, tmp_path):
        memory = arrays.MemoryLimit.of("100MB", tmp_path)
        first, second = (arrays.tall_empty((40, 10**5), np.empty(0), memory) for _ in range(2))
        assert first.base is None
        assert isinstance(second.base, np.memmap)
        second[:] = 1.0
        assert second.sum() == 40 * 10**5
        assert "0.0 GB in files to keep within 0.1 GB of memory" in memory.words()
        assert not list(tmp_path.iterdir())

    def test_what_is_not_used_any_more_makes_room(self):
        memory = arrays.MemoryLimit.of("100MB")
        for _ in range(5):
            assert arrays.tall_empty((40, 10**5), np.empty(0), memory).base is None
        assert memory.words() == ""

    def test_without_a_limit_they_are_arrays_like_any_other(self):
        assert arrays.tall_empty((3, 2), np.empty(0)).base is None

    def test_free_memory_is_what_the_limit_leaves(self):
        memory = arrays.MemoryLimit.of("100MB")
        assert free_memory(np.empty(0), memory) == 10**8
        kept = arrays.tall_empty((10, 10**5), np.empty(0), memory)
        assert free_memory(np.empty(0), memory) == 10**8 - kept.nbytes

    def test_a_limit_goes_to_another_process_and_counts_anew(self):
        memory = arrays.MemoryLimit.of("100MB")
        kept = arrays.tall_empty((10, 10**5), np.empty(0), memory)
        other = pickle.loads(pickle.dumps(memory))
        assert (other.most, other.taken, memory.taken) == (10**8, 0, kept.nbytes)


@pytest.mark.slow
def test_the_solver_follows_from_the_memory(rng):
    X = {"shop": rng.standard_normal((2200, 4))}
    plenty, little = (DKPCA(2, gamma="scale", rank=4, max_memory=m).fit(X).solvers_["shop"] for m in ("4GB", "100MB"))
    assert plenty.startswith("dense")
    assert little.startswith("streamed")
    assert "0.1 GB free" in little


@pytest.mark.versions
@pytest.mark.longer
def test_arrays_in_files_change_no_bit(rng, monkeypatch):
    tables = {name: rng.standard_normal((900, 5)) for name in "ab"}
    how: dict[str, Any] = {"gamma": "scale", "rank": 6, "solver": "landmark", "n_landmarks": 50}
    free = DKPCA(3, **how).fit(tables)
    monkeypatch.setattr(arrays, "TALL_SHARE", 0.0)
    tight = DKPCA(3, max_memory="100MB", **how).fit(tables)
    np.testing.assert_array_equal(free.eigenvectors_, tight.eigenvectors_)
    assert free.certificate_ == tight.certificate_
    assert "in files to keep within 0.1 GB" in tight.solvers_["a"]
    assert "in files to keep within 0.1 GB" in tight.solvers_["center"]


class TestMappedFiles:
    def resident(self) -> int:
        """Kilobytes of files that this process has in memory; those of a file system in memory are counted apart."""
        status = Path("/proc/self/status").read_text()
        return sum(int(status.partition(kind)[2].split()[0]) for kind in ("RssFile:", "RssShmem:"))

    @pytest.fixture
    def sent(self, tmp_path) -> Rounded:
        """A matrix of 64 MB in a mapped file."""
        np.ones((2_000_000, 8), dtype=np.float32).tofile(tmp_path / "factor")
        with (tmp_path / "factor").open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return Rounded(np.frombuffer(data, np.float32).reshape(-1, 8))

    @pytest.mark.longer
    @pytest.mark.parametrize("threads", [1, 2])
    def test_a_factor_in_a_file_is_let_go(self, sent, threads):
        factor = tall.Tall(sent, "float64")
        before = self.resident()
        assert factor.sent.data.sum() == 16_000_000
        kept = self.resident() - before
        with threadpool_limits(threads, user_api="blas"):
            np.testing.assert_array_equal(tall.column_squares(factor), 2_000_000.0)
        assert kept > 50_000 > 10_000 > self.resident() - before

    @pytest.mark.longer
    def test_a_pass_in_strips_lets_go(self, sent):
        def in_strips(start: int, part: rows.RowGroup) -> float:
            return sum(float(part[strip].sum()) for strip in rows.slices(len(part), 256))

        before = self.resident()
        assert rows.added(in_strips, tall.Tall(sent, "float64")) == 16_000_000
        assert self.resident() - before < 10_000

    @pytest.mark.parametrize("precision", ["float32", "float64"])
    def test_a_few_rows_of_a_factor_in_a_file_are_let_go(self, sent, precision):
        before, some = self.resident(), np.arange(0, 2_000_000, 1000)
        np.testing.assert_array_equal(tall.rows_of(tall.as_received(sent, precision), some), 1.0)
        assert self.resident() - before < 10_000

    @pytest.mark.longer
    def test_a_message_that_was_decoded_or_copied_is_let_go(self, sent, tmp_path):
        before = self.resident()
        Rounded.from_arrays("factor", sent.to_arrays())
        storage.write(tmp_path / "copy", runs._writing([sent.data.reshape(-1).data.cast("B")]))
        assert (tmp_path / "copy").read_bytes() == (tmp_path / "factor").read_bytes()
        assert self.resident() - before < 10_000

    def test_what_is_no_part_of_a_file_is_left_alone(self):
        part = np.arange(6.0)
        arrays.let_go(part)
        np.testing.assert_array_equal(part, np.arange(6.0))
