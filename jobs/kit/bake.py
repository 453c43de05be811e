"""Scores a trained adapter, or a served model, on files of cases, beside the incumbent on the same cases.

    bake.py [--adapter FOLDER_OR_MODEL]

The settings are in `baking/settings.py`, the form of a case in `baking/cases.py`. Each answer is kept in
$SWEEP_DIR/cases-bake.jsonl as it comes, so a bake that was killed goes on with the case it was at. Errors of a server,
timeouts and prompts that do not fit end the bake with a code of their own and are never misses. Exit codes: 0; 64
arguments, 65 a file of cases, 66 a file, adapter or model that is not there, 68 a server that cannot be reached or
fails, 69 a package, 75 asked to stop, 78 a setting, or a prompt that was trimmed or does not fit; and those of failures.py.
"""
import os
import sys

if sys.pycache_prefix is None:
    sys.dont_write_bytecode = True   # the folder of the kit may be read-only, and is not ours to fill

import failures
import sweep_report
from baking import asked, cases, models, scores, settings
from baking.endings import Stopped
from baking.half import Half
from baking.journal import Journal
from baking.models import CANDIDATE, INCUMBENT


def main(arguments):
    parser = failures.Arguments(prog="bake.py")
    parser.add_argument("--adapter", metavar="FOLDER_OR_MODEL", help="instead of the result of the train job")
    given = parser.parse_args(arguments)
    stop = sweep_report.Stop()
    try:
        return Bake(sweep_report.config(), given.adapter, stop).run()
    except Stopped:
        print("stopped; the answers so far are kept", flush=True)
        return sweep_report.AGAIN


class Bake:
    def __init__(self, config, adapter, stop):
        self.settings = settings.read(config)
        self.loaded = cases.load(self.settings.cases, self.settings.guards)
        self.cases = self.loaded.runnable
        chosen = models.chosen(self.settings, config, adapter)
        self.way = asked.way(self.settings, stop)
        identities = {model.label: self.way.identity(model) for model in chosen}
        self.models = models.without_twins(chosen, identities)
        about = {"cases": self.loaded.sha256, "settings": self.settings.shaping(),
                 "models": {model.label: identities[model.label] for model in self.models}}
        # One name for all attempts: the folder is the trial's, and a later attempt goes on with the file.
        self.journal = Journal.open(os.path.join(os.environ.get("SWEEP_DIR") or ".", "cases-bake.jsonl"), about)
        self.halves = [Half(model, self.way, self.cases, self.journal, self.settings, stop) for model in self.models]
        passes = range(1, self.settings.passes + 1)
        self.total = len(self.halves) * self.settings.passes * len(self.cases)
        self.done = self.total - sum(len(half.left(number)) for half in self.halves for number in passes)
        self.shown = -1

    def run(self):
        self._show_progress()
        for half in self.halves:
            half.run(self._on_answer)
        self.journal.close()
        if not self.settings.endpoint:
            sweep_report.memory(peak_resident_mib=sweep_report.peak_resident_mib(), context_len=self.settings.context_len,
                                **self.way.peak())
        sweep_report.result(self._result())
        return 0

    def _on_answer(self):
        self.done += 1
        self._show_progress()

    def _show_progress(self):
        """Every whole per cent once: a line for each case would drown the rest of the report."""
        share = self.done * 100 // self.total
        if share > self.shown:
            self.shown = share
            sweep_report.progress(share / 100)

    def _lines(self, label):
        """One list for each pass, in the order of the cases."""
        return [[self.journal.answers[label, number, case.id] for case in self.cases]
                for number in range(1, self.settings.passes + 1)]

    def _result(self):
        by_label = {half.model.label: half for half in self.halves}
        candidate = self._figures(by_label[CANDIDATE])
        found = {**candidate, "cases": len(self.cases), "guard_cases": sum(case.guard for case in self.cases),
                 "runnable": len(self.cases), "total": len(self.loaded.all), "cases_file": self.journal.path,
                 "cases_sha256": self.loaded.sha256, "incumbent": None, "checkpoints": []}
        if INCUMBENT in by_label:
            found["incumbent"] = self._figures(by_label[INCUMBENT])
            found.update(scores.against(self.cases, self._lines(CANDIDATE), self._lines(INCUMBENT)))
        earlier = [half for half in self.halves if half.model.label not in (CANDIDATE, INCUMBENT)]
        if earlier:
            found["checkpoints"] = sorted(
                ({"step": half.model.step, "path": half.model.name, "held_out_loss": half.model.held_out_loss,
                  **scores.brief(self._figures(half))}
                 for half in [by_label[CANDIDATE], *earlier]), key=lambda one: (one["step"] is None, one["step"]))
        return found

    def _figures(self, half):
        model = half.model
        return {**scores.of_model(self.cases, self._lines(model.label)), "model": model.name or "base",
                "step": model.step, "server": half.facts}


if __name__ == "__main__":
    sys.exit(failures.guarded(lambda: main(sys.argv[1:])))
