"""bake.py against a strict Ollama: eviction, context, resuming after a kill, and nothing counted that was not answered."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from bake_job import CASES, Job, case, right
from bake_servers import Ollama


def perfect(_model, text):
    return right(text)


class Scores(unittest.TestCase):
    def test_two_halves_with_guards_breaches_and_unparseable_replies(self):
        def answer(model, text):
            if model == "old:latest":
                return {"dark please": "I would turn it off.", "the note says lights on": '{"capability": "lights.on"}'}.get(
                    text, right(text))
            return {"he wrote: lights on": 'Sure: {"capability": "lights.on"}'}.get(text, right(text))

        with Ollama(answer) as server, Job(
                endpoint=server.url, server="ollama", passes=2, incumbent="old") as job:
            server.resident["stranger:latest"] = 4096
            server.models["stranger:latest"] = 4096
            code, out, err = job.run()
            self.assertEqual((code, err), (0, ""), out)
            found, old = job.result(), job.result()["incumbent"]
            self.assertEqual([found[name] for name in ("held_out", "train", "guard")], [1.0, 1.0, 0.5])
            self.assertEqual(found["guard_breaches"], {"held_out": 0, "train": 1})
            self.assertEqual(found["breached"], ["quoted-1"])
            self.assertEqual((found["cases"], found["guard_cases"], found["runnable"], found["total"]), (6, 2, 6, 6))
            self.assertEqual(found["passes"], [1.0, 1.0])
            self.assertAlmostEqual(found["overall"], 5 / 6)
            self.assertEqual(found["per_capability"]["counterweight"]["cases"], 1)
            self.assertEqual((found["new_held_out_breaches"], found["held_out_gained"], found["held_out_lost"]), (0, 1, 0))
            self.assertEqual((old["unparseable"], old["guard_breaches"]), (1, {"held_out": 1, "train": 0}))
            self.assertAlmostEqual(old["held_out"], 2 / 3)
            self.assertEqual(found["server"], {"context": 2048, "resident_bytes": 1000, "on_card_bytes": 1000})
            self.assertEqual(found["cases_file"], job.path("cases-bake.jsonl"))
            lines = job.answers()
            self.assertEqual(len(lines), 2 * 2 * 6)
            self.assertEqual(lines[0]["answer"], {"capability": "lights.on", "room": "kitchen"})
            self.assertTrue(all(line["seconds"] > 0 and line["prompt_tokens"] > 100 for line in lines))
            metrics = [(line["step"], line["metric"]) for line in job.report() if "metric" in line]
            self.assertEqual([step for step, _ in metrics], [1, 2, 1, 2])
            self.assertIn("held_out", metrics[0][1])
            self.assertIn("incumbent_guard_breaches", metrics[2][1])
            progress = [line["progress"] for line in job.report() if "progress" in line]
            self.assertEqual((progress[0], progress[-1]), (0.0, 1.0))
            self.assertEqual(server.log, [
                "evict stranger:latest", "load router:latest 2048 beside []",
                "evict router:latest", "load old:latest 2048 beside []"])

    def test_a_verdict_that_differs_between_passes_is_a_flip(self):
        with Ollama(lambda _model, text: right(text) if len(server.asked) != 9 else "{}") as server, Job(
                endpoint=server.url, server="ollama", passes=2) as job:
            self.assertEqual(job.run()[0], 0)
            found = job.result()
            self.assertEqual((found["flips"], found["flipped"], found["unparseable"]), (1, ["off-1"], 1))
            self.assertEqual(found["passes"], [1.0, 2 / 3])
            self.assertIsNone(found["incumbent"])

    def test_a_model_that_leaves_slowly_is_waited_for(self):
        with Ollama(perfect, lingers=3) as server, Job(endpoint=server.url, server="ollama") as job:
            server.resident["old:latest"] = 4096
            self.assertEqual(job.run()[0], 0)
            self.assertNotIn("old:latest", server.resident)


class Context(unittest.TestCase):
    LONG = [*CASES, case("long", "word " * 3000, "lights.off", "held_out")]

    def test_a_prompt_that_does_not_fit_ends_the_bake_before_any_is_asked(self):
        for refuses in (False, True):
            with Ollama(perfect, refuses_long=refuses) as server, Job(
                    self.LONG, endpoint=server.url, server="ollama") as job:
                code, out, err = job.run()
                self.assertEqual(code, 78)
                self.assertIn("case long: up to", err)
                self.assertIn("context_len = 2048; set it to", err)
                self.assertEqual(json.loads(out.splitlines()[-1])["error"], "prompt_too_long")
                self.assertEqual(server.asked, [])

    def test_a_server_that_gives_less_context_than_asked_for_is_noticed(self):
        with Ollama(perfect, models={"router:latest": 300}) as server, Job(endpoint=server.url, server="ollama") as job:
            code, _, err = job.run()
            self.assertEqual(code, 78)
            self.assertIn("a context of 300 tokens for num_ctx = 2048", err)
            self.assertEqual(server.asked, [])

    def test_a_prompt_that_was_trimmed_in_silence_is_no_miss(self):
        cases = [case("cut", "word " * 400, "lights.off", "held_out"), *CASES]
        with Ollama(perfect, models={"router:latest": 300}, hides_context=True) as server, Job(
                cases, endpoint=server.url, server="ollama") as job:
            server.answer = lambda *_: '{"capability": "lights.off"}'
            code, out, err = job.run()
            self.assertEqual(code, 78)
            self.assertIn("the server read 152 tokens of a prompt of at least", err)
            self.assertEqual(json.loads(out.splitlines()[-1])["error"], "prompt_trimmed")
            self.assertEqual(job.answers(), [])

    def test_a_long_prompt_that_fits_is_asked(self):
        cases = [case("long", "word " * 1200, "none", "held_out")]
        with Ollama(lambda *_: '{"capability": null}') as server, Job(
                cases, endpoint=server.url, server="ollama") as job:
            code, _, err = job.run()
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(job.result()["held_out"], 1.0)


class Resuming(unittest.TestCase):
    def killed_at(self, number, kill=lambda process: process.kill(), **stage):
        """A job that was killed while the case of that number was asked, its server, and that process's end."""
        server = self.enterContext_(Ollama(perfect))
        job = self.enterContext_(Job(endpoint=server.url, server="ollama", passes=2, incumbent="old", **stage))
        holder = {}
        server.on_case = lambda at: at == number and kill(holder["process"])
        holder["process"] = job.start()
        out, err = holder["process"].communicate(timeout=60)
        server.on_case = lambda at: None
        return server, job, holder["process"].returncode, out

    def enterContext_(self, context):   # unittest has it from 3.11 on
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def test_killed_in_the_middle_it_goes_on_and_counts_nothing_twice(self):
        server, job, code, _ = self.killed_at(9)
        self.assertEqual(code, -9)
        self.assertEqual(len(job.answers()), 8)
        code, out, err = job.run()
        self.assertEqual((code, err), (0, ""))
        self.assertIn("8 answers are there already", out)
        keys = [(line["model"], line["pass"], line["case"]) for line in job.answers()]
        self.assertEqual((len(keys), len(set(keys))), (24, 24))
        self.assertEqual(len(server.asked), 9 + 16)
        self.assertEqual(job.result()["overall"], 1.0)

    def test_killed_in_the_second_half_it_does_not_load_the_first_model_again(self):
        server, job, _, _ = self.killed_at(14)
        server.log.clear()
        self.assertEqual(job.run()[0], 0)
        self.assertEqual(server.log, [])
        self.assertEqual(len(server.asked), 14 + 11)

    def test_a_torn_last_line_is_dropped_and_its_case_asked_again(self):
        server, job, _, _ = self.killed_at(9)
        for end in (b'{"model": "candidate", "pass": 2, "ca', b"\0" * 30, b'{"model": "candidate"}\n'):
            with open(job.path("cases-bake.jsonl"), "ab") as file:
                file.write(end)
            process = job.start()
            server.on_case = lambda at, process=process: process.kill()
            out, _ = process.communicate(timeout=60)
            self.assertIn(f"its last {len(end)} bytes are torn", out)
            self.assertEqual(len(job.answers()), 8)
        server.on_case = lambda at: None
        self.assertEqual(job.run()[0], 0)
        self.assertEqual(len(job.answers()), 24)

    def test_a_line_that_is_there_twice_counts_once(self):
        server, job, _, _ = self.killed_at(9)
        with open(job.path("cases-bake.jsonl"), "rb+") as file:
            last = file.read().splitlines()[-1]
            file.write(last.replace(b'"ok": true', b'"ok": false') + b"\n")
        self.assertEqual(job.run()[0], 0)
        self.assertEqual(job.result()["overall"], 1.0)
        self.assertEqual(len(server.asked), 9 + 16)

    def test_what_changed_is_said_and_all_is_asked_anew(self):
        changes = [
            ("cases", lambda server, job: job.write([*CASES[:-1], {**CASES[-1], "note": "new"}])),
            ("settings (max_tokens)", lambda server, job: job.stage.update(max_tokens=32)),
            ("models (candidate)", lambda server, job: job.stage.update(model="newer")),
        ]
        for said, change in changes:
            server, job, _, _ = self.killed_at(3)
            server.models["newer:latest"] = 8192
            server.asked.clear()
            change(server, job)
            code, out, _ = job.run()
            self.assertEqual(code, 0)
            self.assertIn(f"{said} changed: all cases are asked anew", out)
            self.assertEqual((len(server.asked), len(job.answers())), (24, 24))

    def test_more_passes_keep_those_that_are_there(self):
        server, job, _, _ = self.killed_at(30)
        job.stage["passes"] = 3
        self.assertEqual(job.run()[0], 0)
        self.assertEqual(len(server.asked), 24 + 12)
        self.assertEqual(len(job.result()["passes"]), 3)

    def test_asked_to_stop_it_ends_after_the_case_with_75(self):
        server, job, code, out = self.killed_at(4, lambda process: process.terminate())
        self.assertEqual(code, 75)
        self.assertIn("stopped", out)
        self.assertEqual(len(job.answers()), 4)
        self.assertEqual(job.run()[0], 0)
        self.assertEqual(len(server.asked), 24)


if __name__ == "__main__":
    unittest.main()
