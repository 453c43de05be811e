"""One model over all cases and passes that its journal does not have yet, with metrics as it goes.

Every prompt is checked before the first is sent, so that a context too small is noticed at once and not in an hour.
A model with nothing left to ask is not loaded. On a failure nothing is recorded for the case that failed.
"""
import collections
import concurrent.futures

import sweep_report

from . import scores
from .endings import Stopped
from .models import CANDIDATE, INCUMBENT
from .verdict import judge

ANSWER_KEPT = 2000   # characters of a reply in the journal; a model that rambles would fill the disk


class Half:
    def __init__(self, model, way, cases, journal, settings, stop):
        self.model, self.way, self.cases, self.journal = model, way, cases, journal
        self.settings, self.stop = settings, stop
        self.facts = {}

    def left(self, number):
        label = self.model.label
        return [case for case in self.cases if (label, number, case.id) not in self.journal.answers]

    def run(self, on_answer):
        """`on_answer` is called after each; raises Stopped between two cases."""
        open_passes = [number for number in range(1, self.settings.passes + 1) if self.left(number)]
        if open_passes:
            self._stop_here()
            print(f"{self.model.label}: {self.model.name or 'the base model'}", flush=True)
            self.facts = self.way.open(self.model) or {}
            self._check_prompts(open_passes)
        for number in range(1, self.settings.passes + 1):
            if number in open_passes:
                self._ask_all(number, on_answer)
                self.journal.keep()
            self._report(number)
        if open_passes:
            self.way.close()

    def _check_prompts(self, passes):
        for case in {case.id: case for number in passes for case in self.left(number)}.values():
            self._stop_here()
            self.way.check_fits(case)

    def _ask_all(self, number, on_answer):
        if self.settings.endpoint and self.settings.parallel > 1:
            return self._ask_side_by_side(number, on_answer)
        left = self.left(number)
        together = self.settings.parallel if hasattr(self.way, "ask_together") else 1
        for at in range(0, len(left), together):
            self._stop_here()
            cases = left[at:at + together]
            replies = self.way.ask_together(cases) if together > 1 else [self.way.ask(cases[0])]
            for case, reply in zip(cases, replies):
                self._record(number, case, reply)
                on_answer()

    def _ask_side_by_side(self, number, on_answer):
        """As many at once as the setting says. Answers that come in while the bake is ending are kept, too."""
        waiting, running = collections.deque(self.left(number)), {}
        with concurrent.futures.ThreadPoolExecutor(self.settings.parallel) as pool:
            failure = None
            while running or waiting and not failure and not self.stop.asked:
                while waiting and len(running) < self.settings.parallel and not failure and not self.stop.asked:
                    case = waiting.popleft()
                    running[pool.submit(self.way.ask, case)] = case
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    case = running.pop(future)
                    if future.exception() is not None:
                        failure = failure or future.exception()
                        continue
                    self._record(number, case, future.result())
                    on_answer()
        if failure:
            raise failure
        if waiting:
            self._stop_here()

    def _record(self, number, case, reply):
        verdict = judge(case, reply.text)
        line = {"model": self.model.label, "pass": number, "case": case.id, "ok": verdict.ok, "breach": verdict.breach,
                "unparseable": verdict.unparseable, "answer": verdict.answer, "seconds": round(reply.seconds, 4),
                "prompt_tokens": reply.prompt_tokens}
        if reply.cut:
            line["cut"] = True
        if not verdict.ok:
            line["reply"] = reply.text[:ANSWER_KEPT]
        self.journal.add(line)

    def _report(self, number):
        """One metric a pass; an earlier checkpoint's stands at its step, so that they make a curve."""
        lines = [self.journal.answers[self.model.label, number, case.id] for case in self.cases]
        found = scores.of_pass(self.cases, lines)
        if self.model.label in (CANDIDATE, INCUMBENT):
            prefix, step = ("" if self.model.label == CANDIDATE else "incumbent_"), number
        else:
            prefix, step = "checkpoint_", self.model.step
        shown = {name: found[name] for name in ("held_out", "train", "guard", "overall") if found[name] is not None}
        shown["guard_breaches"] = sum(found["guard_breaches"].values())
        sweep_report.metric(step, **{prefix + name: value for name, value in shown.items()})
        said = ", ".join(f"{name} {value:.4g}" for name, value in shown.items())
        print(f"{self.model.label}, pass {number} of {self.settings.passes}: {said}", flush=True)

    def _stop_here(self):
        if self.stop.asked:
            raise Stopped
