"""What a party does in a study: it walks the steps of the plan, makes the questions itself, and answers each once.

Where the center has to tell something (the common samples, the derived values, which summaries arrived), the party
checks it against the plan and its own table, and refuses what does not follow from them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dkpca import wire
from dkpca.errors import DKPCAError, InputError, PolicyError, ProtectionError
from dkpca.exchange import protocols, replay
from dkpca.exchange import review as reviews
from dkpca.exchange.member import Membership, OtherQuestionError, WaitingError
from dkpca.exchange.memory import Memory
from dkpca.exchange.own_table import OwnTable
from dkpca.exchange.plan import Plan, second_nonce
from dkpca.fusion.audit import uniform_request
from dkpca.kernels import Kernel, Precomputed
from dkpca.messages import Reveal, Scores, Seed
from dkpca.party import questions as q
from dkpca.party.answers import Party
from dkpca.party.limits import Limits
from dkpca.protection import quantities
from dkpca.protection.quantities import Addends
from dkpca.protection.rotation import Rotation, hidden_digest
from dkpca.settings import Fit

MOST_TOLD = 2**31  # bytes of what the center tells a party; written to disk in pieces
REBUILDS = (q.SummaryWanted, q.SumsWanted, q.ResultGiven)  # answers that leave something for later steps


@dataclass
class PartySide:
    """One party of an agreed study."""

    member: Membership
    memory: Memory
    fit: Fit
    table: OwnTable
    limits: Limits
    new: Mapping[str, OwnTable] = field(default_factory=dict)  # batches of new samples that are there
    _before: list[q.Question] = field(default_factory=list)  # answered by an earlier command, nothing of it in memory

    def __post_init__(self) -> None:
        member = self.member
        self.plan: Plan = member.study.plan
        self.names: tuple[str, ...] = self.plan.parties
        self.center = (self.plan.center,)
        self.party = Party(
            member.name,
            lambda columns_are: self.table.X,
            self.names,
            member.agreement.digest,
            member.me.derive("party", member.agreement.digest),
            coin=second_nonce(member.me),
            open_new=lambda batch, columns_are: self.new[batch].X,
            ids=self.table.keys,
            ids_new={batch: table.keys or () for batch, table in self.new.items()},
        )

    @cached_property
    def derived(self) -> q.Derived:
        """What all parties agreed to; filled by `go`."""
        return self._go()

    def run(self) -> Scores | None:
        """Answer all steps that can be answered; return the result, None if this party does not get it."""
        self._match("")
        masked = self._masked_scale() if self._needs_masked_scale() else None
        if masked is None and self._needs_statistics():
            kernel = self._unscaled(self.member.name)
            self._answer("statistics", q.StatisticsWanted(kernel, self.fit.standardize))
        derived = self.derived
        if self.fit.protect == "sums":
            kernel = derived.kernels[self.member.name]
            what = quantities.of_fit(kernel, derived.n_samples, self.fit.n_landmarks, self.fit.precision)
            self._sums(kernel, what, derived.columns, standardize=self.fit.standardize)
        else:
            asked = protocols.summary_question(self.fit, derived.kernels, self.member.name, derived.n_samples)
            self._answer("summary", asked)
        if self.fit.audit is not None:
            self._audit()
        if self.member.name not in self.plan.result_to:
            return None
        told = self._told("result", q.ResultGiven)
        self._apply(told)
        scores: Scores = told.scores
        return scores

    def place(self, batch: str, result: Scores) -> Scores:
        """Take part in placing one batch of new samples; return their scores."""
        self._check_batch(batch)
        self._match(batch, seeds=False)
        n_new = len(self.party.order.get(batch, range(len(self.new[batch].X))))
        if self.fit.protect == "none":
            self._answer(f"{batch}/rows", q.RowsWanted(batch))
        else:
            kernel = self._kernel_of(result)
            fitted = quantities.of_fit(kernel, self.derived.n_samples, self.fit.n_landmarks, self.fit.precision)
            scores = self.fit.protect == "blind"
            columns = result.scores.shape[1] if scores else fitted.columns
            what = Addends("scores" if scores else "new", n_new, columns, 64 if scores else fitted.bits)
            about = wire.fingerprint(result) if scores else ""
            self._sums(kernel, what, self.derived.columns, batch=batch, result=about)
        placed: Scores = self._told(f"{batch}/result", q.ResultGiven).scores
        return placed

    def _kernel_of(self, result: Scores) -> Kernel:
        """Kernel of the joint matrix: of masked sums its width follows from them, and the result tells it."""
        if self.fit.protect == "blind":
            return Precomputed()
        agreed, told = self.derived.kernels[self.member.name], result.kernel
        width = getattr(agreed, "gamma", None)
        if type(told) is not type(agreed) or (replace(told, gamma=width) if width else told) != agreed:  # type: ignore
            self.member.refuse("result", "question")
        return told

    def embedding(self, scores: Scores, batch: str = "") -> np.ndarray[Any, Any]:
        """Scores with a row for each sample: those of a blind fit are turned back; new samples were never turned."""
        values = np.asarray(scores.scores.decode())
        if self.fit.protect != "blind" or batch:
            return values
        n = len(values)
        return Rotation(self.party.group_key, self.party.run, self.party.digest(n), n).turn_back(values)

    def samples(self, batch: str = "") -> Sequence[str]:
        """Ids of the samples in the order of the result, as this party writes them."""
        table = self.new[batch] if batch else self.table
        order = self.party.order.get(batch, list(range(len(table.X))))
        return [str(row + 1) if table.ids is None else table.ids[row] for row in order]

    def _match(self, batch: str, *, seeds: bool = True) -> None:
        """Seeds for the other parties, and the samples that all have."""
        aligned = self.plan.align == "tokens"
        before = f"{batch}/" if batch else ""
        if seeds and (aligned or self.fit.protect != "none"):
            self._seeds()
        if aligned:
            self._answer(f"{before}tokens", q.TokensWanted(batch))
            told = self._told(f"{before}common", q.CommonGiven)
            if told.batch != batch:
                self.member.refuse("common", "question")
            self._apply(told)
        if batch and self.fit.protect == "none":
            return
        columns_are = self.fit.family_of(self.member.name).columns_are
        self._answer(f"{before}shape", q.ShapeWanted(batch, columns_are, self.fit.protect == "blind"))

    def _seeds(self) -> None:
        """Give each other party its seeds, and take theirs; whoever fuses sees none of them."""
        asked = q.SeedsWanted(self.party.run, self.names)
        packed = [q.encode(asked)]
        made = self.party.answer(asked)
        assert isinstance(made, dict)
        replay.answer(
            self.member, "seeds", packed, lambda: {(other,): wire.pieces(seed) for other, seed in made.items()}
        )
        for other in made:
            path = replay.received(self.member, other, "seeds", packed, at_most=asked.most_bytes())
            seed = wire.decode(path.read_bytes())
            if not isinstance(seed, Seed) or (seed.party, seed.to) != (other, self.member.name):
                raise ProtectionError(f"{other}: its seeds are not for {self.member.name}")
            self.party.received[other] = seed

    def _go(self) -> q.Derived:
        """Check the derived values, agree to them, and wait until all have agreed to the same."""
        asked: q.GoWanted = self._told("go", q.GoWanted)
        if self.member.sent("go", q.digest(asked)) is None:
            reason = self._doubt(asked.derived)
            if reason:
                self.member.refuse("go", reason)
        self._answer("go", asked)
        waiting = []
        for other in self.names:
            if other == self.member.name:
                continue
            try:
                replay.received(self.member, other, "go", [q.encode(asked)], at_most=asked.most_bytes())
            except WaitingError:
                waiting.append(other)
            except OtherQuestionError:
                self.member.refuse("go", "agree")
        if waiting:
            raise WaitingError("go", *waiting)
        return asked.derived

    def _doubt(self, derived: q.Derived) -> str:
        """Why these derived values do not follow from the plan and this party's table; empty: they do."""
        order = self.party.order.get("")
        n = len(self.table.X if order is None else order)
        samples = self.party.digest(n)
        if self.fit.protect == "blind":
            samples = hidden_digest(self.party.group_key, self.party.run, samples, n)
        columns = {name: self.member.study.members[name].columns for name in self.names}
        if (derived.n_samples, derived.samples, dict(derived.columns)) != (n, samples, columns):
            return "question"
        if n < max(self.plan.samples, self.limits.samples):
            return "samples"
        expected = self._kernels(derived)
        if expected is None:
            return "gamma"
        if expected != dict(derived.kernels):
            return "question"
        rows = list(range(n)) if order is None else order
        worst = reviews.at_go(
            self.plan, self.fit, derived, self.member.name, self.memory, self.table, rows, self.limits
        )
        return "limits" if worst > self.limits.recovery else ""

    def _kernels(self, derived: q.Derived) -> dict[str, Kernel] | None:
        """Kernels that follow from the plan with the widths told; None if a width is outside the plan's bounds."""
        if self.fit.protect == "sums":
            return dict.fromkeys(self.names, protocols.joint_kernel(self.names, self.fit)[0])
        shape = protocols.Common(derived.n_samples, derived.samples, derived.columns)
        terms = protocols.Terms(self.party.run, gammas=self.plan.gamma)
        fit = self.fit
        if self._needs_statistics() or self._needs_masked_scale():
            widths: dict[str, Any] = {
                name: getattr(derived.kernels[name], "gamma", None)
                for name in self.names
                if isinstance(self._asked(name), str) and self.fit.family_of(name).has_width
            }
            low, high = self.plan.gamma
            if not all(isinstance(width, float) and low <= width <= high for width in widths.values()):
                return None
            alike: dict[Any, set[Any]] = {}
            for name, width in widths.items():
                alike.setdefault(self._unscaled(name), set()).add(width)
            if any(len(found) > 1 for found in alike.values()):
                return None
            fit = replace(fit, gamma=widths)
        steps = protocols.kernels_of(self.names, fit, terms, shape)
        try:
            next(steps)
        except StopIteration as end:
            return dict(end.value)
        raise AssertionError("every width is known here")

    def _asked(self, name: str) -> Any:
        kernel = self.fit.kernel
        return kernel[name] if isinstance(kernel, Mapping) else kernel

    def _unscaled(self, name: str) -> Kernel:
        family = self.fit.family_of(name)
        return family if isinstance(family, Kernel) else family.from_settings(gamma=1.0, centered=self.fit.center)

    def _derives_width(self) -> bool:
        open_width = [n for n in self.names if isinstance(self._asked(n), str) and self.fit.family_of(n).has_width]
        return bool(open_width) and isinstance(self.fit.gamma, str) and not protocols.scale_known(self.fit)

    def _needs_statistics(self) -> bool:
        return self.fit.protect == "none" and self._derives_width()

    def _needs_masked_scale(self) -> bool:
        return self.fit.protect == "blind" and self._derives_width()

    def _masked_scale(self) -> bool:
        kernel, what = self._unscaled(self.names[0]), Addends("statistic", 1, 1, 64)
        self._sums(kernel, what, dict.fromkeys(self.names, 1), standardize=self.fit.standardize)
        return True

    def _sums(
        self,
        kernel: Kernel,
        what: Addends,
        columns: Mapping[str, int],
        *,
        batch: str = "",
        result: str = "",
        standardize: bool = False,
    ) -> None:
        """Add masked numbers, piece by piece; only bounds come from the center, and only where they need data."""
        before = f"{batch}/" if batch else ""
        before += "statistics-" if what.kind == "statistic" else ""
        about: dict[str, Any] = {
            "run": self.party.run,
            "roster": self.names,
            "kernel": kernel,
            "what": what,
            "batch": batch,
            "result": result,
            "standardize": standardize,
        }
        known = {name: quantities.bounds_without_data(what, kernel, columns[name]) for name in self.names}
        first = f"{before}sums-1"
        if standardize and None not in known.values():
            bounds = {name: most[0] for name, most in known.items() if most is not None}
            lengths = {name: max(most[1], 2.0**-1000) for name, most in known.items() if most is not None}
        else:
            step = f"{before}bounds"
            self._answer(step, q.BoundsWanted(step, **about))
            asked = self._told(first, q.SumsWanted)
            bounds, lengths = dict(asked.bounds), dict(asked.length_bounds)
        for part in range(1, len(what.pieces) + 1):
            expected = q.SumsWanted(
                step=f"{before}sums-{part}", part=part, bounds=bounds, length_bounds=lengths, **about
            )
            if part == 1 and not (standardize and None not in known.values()) and expected != asked:
                self.member.refuse(first, "question")
            self._answer(expected.step, expected)

    def _audit(self) -> None:
        """Reveal the committed nonce when all summaries are in; send rows that the nonces of all parties draw."""
        asked = self._told("received", q.ReceivedGiven)
        self._answer("received", asked)
        nonces = []
        for name in self.names:
            if name == self.member.name:
                nonces.append(self.party.coin)
                continue
            path = replay.received(self.member, name, "received", [q.encode(asked)], at_most=asked.most_bytes())
            revealed = wire.decode(path.read_bytes())
            committed = self.member.agreement.signatures[name].second
            if (
                not isinstance(revealed, Reveal)
                or hashlib.sha256(bytes.fromhex(revealed.nonce)).hexdigest() != committed
            ):
                raise ProtectionError(f"{name}: reveals another nonce than the one it committed to")
            nonces.append(bytes.fromhex(revealed.nonce))
        request = self._told("audit", q.AuditWanted).request
        seed, derived = protocols.coin_of(nonces), self.derived
        expected = uniform_request(derived.n_samples, derived.samples, self.fit.audit or 0, seed)
        if request != expected:
            self.member.refuse("audit", "question")
        self._answer("audit", q.AuditWanted(request))

    def _check_batch(self, batch: str) -> None:
        """Refuse a batch that is too small, or that has a sample which was answered before."""
        table = self.new[batch]
        earlier = {key for name, other in self.new.items() if name < batch for key in other.keys or ()}
        if len(table.X) < self.plan.batch_samples:
            raise InputError(
                f"{batch} has {len(table.X)} samples; the plan asks for {self.plan.batch_samples} at least"
            )
        again = sorted(set(table.keys or ()) & (earlier | set(self.table.keys or ())))
        if again:
            raise InputError(f"{batch}: {len(again)} of its samples were answered before; leave them out")

    def _answer(self, step: str, question: q.Question) -> None:
        """Answer one step, unless an earlier command has; a question that cannot be answered ends the study."""
        packed = [q.encode(question)]
        if self.member.sent(replay.file_of(step), q.digest(question)) is not None:
            self.member.publish(replay.file_of(step), q.digest(question))
            self._before += [question] if isinstance(question, REBUILDS) else []
            return
        readers = () if isinstance(question, q.GoWanted | q.ReceivedGiven) else self.center
        replay.answer(self.member, step, packed, lambda: {readers: wire.pieces(self._made(step, question))})

    def _made(self, step: str, question: q.Question) -> Any:
        try:
            for earlier in self._before:
                if not isinstance(earlier, q.SumsWanted) or earlier.part == 1:
                    self.party.answer(earlier)
            self._before = []
            return self.party.answer(question)
        except (InputError, PolicyError, ProtectionError) as error:
            self.member.refuse(step, "constant" if isinstance(error, ProtectionError) else "data", str(error))

    def _apply(self, told: q.Question) -> None:
        """Take in what was told, where later steps need it."""
        if isinstance(told, q.CommonGiven):
            self.party.answer(told)
        elif self.fit.protect == "blind":
            self._before.append(told)

    def _told(self, step: str, kind: type[Any]) -> Any:
        """Return what the center told this party at a step."""
        data = replay.question_of(self.member, step, at_most=MOST_TOLD)
        try:
            found = q.decode(data)
        except DKPCAError as error:
            raise ProtectionError(f"the center's {step} cannot be read: {error}") from error
        if not isinstance(found, kind):
            self.member.refuse(step, "question")
        return found


def batches_in(folder: Path, table: OwnTable, count: int) -> dict[str, OwnTable]:
    """Tables of new samples in DIR/new, by their batch: 1.csv, 2.csv and so on, in their order, without a gap."""
    found: dict[str, OwnTable] = {}
    for number in range(1, count + 1):
        files = sorted((folder / "new").glob(f"{number}.*"))
        if not files:
            break
        found[f"batch-{number}"] = table.new_rows(files[0])
    return found
