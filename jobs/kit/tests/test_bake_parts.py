"""The parts of a bake that need no server: cases, settings, verdicts, scores, prompt sizes, and who is asked."""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bake_job import CASES, Job, case
from baking import cases, models, prompt_size, scores, settings, verdict
from failures import Failure

STAGE = {"cases": "c.jsonl", "context_len": 2048}


def read(**stage):
    return settings.read({"stage": {**STAGE, **stage}})


class CaseFiles(unittest.TestCase):
    def refused(self, line, said, guards=False):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(CASES[0]) + "\n\n" + (line if isinstance(line, str) else json.dumps(line)) + "\n")
            with self.assertRaises(Failure) as ended:
                cases.load([] if guards else [path], [path] if guards else [])
            self.assertEqual(ended.exception.code, 65)
            self.assertIn(said, str(ended.exception))
            self.assertIn(path + (":1: " if guards else ":3: "), str(ended.exception))

    def test_mistakes_are_named_with_file_and_line(self):
        good = case("x", "hello", "a", "held_out")
        self.refused("{", "not a line of JSON")
        self.refused("[1]", "expected an object")
        self.refused({**good, "id": ""}, "`id`")
        self.refused({**good, "id": "on-1"}, "is taken by")
        self.refused({**good, "tags": ["train", "held_out"]}, "exactly one of")
        self.refused({**good, "tags": []}, "exactly one of")
        self.refused({**good, "tags": "train"}, "list of text")
        self.refused({**good, "prompt": "too"}, "one of them")
        self.refused({**good, "messages": [{"role": "robot", "content": "x"}]}, "a message has `role`")
        self.refused({**good, "messages": [{"role": "assistant", "content": "x"}]}, "nothing to answer")
        self.refused({**good, "expect": {}}, "with a `capability`")
        self.refused({**good, "expect": {"capability": "a", "arguments": [1]}}, "`arguments`")
        self.refused({key: good[key] for key in good if key != "expect"}, "`expect` is missing")
        self.refused({**good, "tags": ["held_out", "guard"]}, "a guard must not fire")
        self.refused(good, "a guard must not fire", guards=True)

    def test_forms_of_a_case(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, lines in {"c": [{"id": 7, "prompt": "hi", "expect": {"capability": "a"}, "tags": ["train", "mine"]},
                                      {**CASES[0], "skip": "no sensor there"}],
                                "g": [{"id": "g", "prompt": "x", "expect": None, "tags": ["held_out"]}]}.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines)
            loaded = cases.load([os.path.join(folder, "c")], [os.path.join(folder, "g")])
            one, skipped, guard = loaded.all
            self.assertEqual((one.id, one.chat(), one.group), ("7", [{"role": "user", "content": "hi"}], "a"))
            self.assertEqual(loaded.runnable, [one, guard])
            self.assertTrue(skipped.skip and guard.guard and guard.held_out and guard.group == "guard")
            os.rename(os.path.join(folder, "c"), os.path.join(folder, "d"))
            moved = cases.load([os.path.join(folder, "d")], [os.path.join(folder, "g")])
            self.assertEqual(moved.sha256, loaded.sha256)   # of the bytes, wherever they lie

    def test_a_file_that_is_not_there(self):
        with Job(endpoint="http://127.0.0.1:9") as job:
            os.remove(job.path("cases.jsonl"))
            for path in (job.path("cases.jsonl"), "cases.jsonl"):   # relative to the configuration's folder
                job.stage["cases"] = path
                code, _, err = job.run()
                self.assertEqual(code, 66)
                self.assertIn(f"cannot read the cases {job.path('cases.jsonl')}", err)


class Verdicts(unittest.TestCase):
    def judge(self, text, wanted="lights.on", arguments=None, guard=False):
        found = verdict.judge(cases.Case("x", (), wanted, arguments or {}, wanted, True, guard), text)
        return "ok" if found.ok else "unparseable" if found.unparseable else "breach" if found.breach else "miss"

    def test_the_first_object_of_the_reply_counts(self):
        for text in ('{"capability": "lights.on"}', 'Sure!\n```json\n{"capability": "lights.on"}\n```',
                     '{oops {"capability": "lights.on"}', '{"capability": " lights.on "} {"capability": "lights.off"}'):
            self.assertEqual(self.judge(text), "ok", text)
        self.assertEqual(self.judge('{"capability": "lights.off"} {"capability": "lights.on"}'), "miss")

    def test_what_names_no_capability_is_unparseable(self):
        for text in ("", "lights.on", "{", '{"capability": 3}', '{"capability": ""}', "{}", '["lights.on"]',
                     '{"capability": NaN}', "{" * 5000):
            self.assertEqual(self.judge(text), "unparseable", text[:20])

    def test_expected_arguments_must_be_there_and_others_do_not_matter(self):
        wanted = {"room": "Kitchen", "level": 5}
        for text, said in (('"room": "kitchen", "level": 5.0', "ok"), ('"arguments": {"room": "kitchen", "level": 5}', "ok"),
                           ('"room": "kitchen", "level": 5, "colour": "red"', "ok"), ('"room": "kitchen"', "miss"),
                           ('"room": "kitchen", "level": "5"', "miss"), ('"room": "kitchen", "level": true', "miss")):
            self.assertEqual(self.judge('{"capability": "lights.on", %s}' % text, arguments=wanted), said, text)

    def test_a_guard_is_right_when_nothing_fires(self):
        for text, said in (('{"capability": "none"}', "ok"), ('{"capability": null}', "ok"), ("No.", "unparseable"),
                           ('{"capability": "lights.on"}', "breach"), ('{"capability": "clarify"}', "breach")):
            self.assertEqual(self.judge(text, "none", guard=True), said, text)


class Scores(unittest.TestCase):
    def test_counts_are_of_cases_in_any_pass(self):
        known = [cases.Case("a", (), "x", {}, "x", True, False), cases.Case("g", (), "none", {}, "guard", True, True)]

        def line(ok=True, breach=False, answer=None, **more):
            return {"ok": ok, "breach": breach, "unparseable": False, "answer": answer, "seconds": 1.0, **more}

        passes = [[line(), line()], [line(False, answer={"capability": None}, cut=True), line(False, True)],
                  [line(), line(False, True)]]
        found = scores.of_model(known, passes)
        self.assertEqual(found["passes"], [1.0, 0.0, 1.0])
        self.assertEqual((found["held_out"], found["train"], found["guard"]), (2 / 3, None, 1 / 3))
        self.assertEqual(found["guard_breaches"], {"held_out": 1, "train": 0})
        self.assertEqual(found["over_refusals"], {"held_out": 1, "train": 0})
        self.assertEqual((found["flips"], found["flipped"], found["cut"]), (2, ["a", "g"], 1))
        clean = [[line(), line()]] * 3
        self.assertEqual(scores.against(known, passes, clean)["new_held_out_breached"], ["g"])
        self.assertEqual(scores.against(known, passes, passes)["new_held_out_breaches"], 0)

    def test_intervals_and_latencies(self):
        self.assertEqual(scores.interval(0.875, 8), [0.5291, 0.9776])
        self.assertEqual(scores.interval(1.0, 8)[1], 1.0)
        self.assertIsNone(scores.interval(None, 0))
        self.assertEqual(scores.latency([float(n) for n in range(1, 101)]), {"median": 50.0, "p95": 95.0})
        self.assertEqual(scores.latency([3.0]), {"median": 3.0, "p95": 3.0})


class PromptSizes(unittest.TestCase):
    def test_the_count_lies_between_the_bounds_and_each_text_is_counted_once(self):
        counted = []

        def count(messages):
            counted.append(messages)
            return 12 + sum(len(message["content"].split()) + 4 for message in messages)

        texts = ["word " * n for n in (1, 7, 500, 3000)] + ["x" * 5000, "", "äöü " * 900]
        pieced = prompt_size.Pieced(count, 4096)
        for text in texts:
            one = cases.Case("x", (("system", text), ("user", "go on")), "a", {}, "a", True, False)
            size, true = pieced.of(one), count(one.chat())
            self.assertTrue(size.least <= true <= size.most, (text[:9], size, true))
        longest = max(len(message["content"].encode()) for chat in counted[:2] for message in chat)
        self.assertLessEqual(longest, prompt_size.PIECE)
        before = len(counted)
        pieced.of(one)
        self.assertEqual(len(counted), before)

    def test_pieces_make_the_text_again(self):
        for text in ("", "a b", "ab " * 5000, "x" * 9000, "\U0001f600" * 3000, "\ud800" * 3000):
            pieces = prompt_size.split(text, 2000)
            self.assertEqual("".join(pieces), text)
            self.assertLessEqual(max(len(piece.encode(errors="replace")) for piece in pieces), 2000)


class Settings(unittest.TestCase):
    def test_wrong_values_are_named(self):
        for stage, said in (
                ({"passes": 0}, "passes: "), ({"passes": True}, "passes: "), ({"context_len": None}, "context_len is missing"),
                ({"temperature": 0.2}, "temperature: "), ({"server": "vllm"}, "server: unknown"), ({"cases": None}, "cases"),
                ({"endpoint": "127.0.0.1:80"}, "endpoint: "), ({"endpoint": "http://me:pw@host"}, "api_key_env"),
                ({"endpoint": "http://host"}, "model: "), ({"checkpoints": ["1"]}, "checkpoints: "),
                ({"timeout": 0}, "timeout: "), ({"retries": "3"}, "retries: "), ({"api_key_env": "NOT_SET_HERE"}, "NOT_SET"),
                ({"evict": 1}, "evict: ")):
            with self.assertRaises(Failure) as ended:
                read(**stage)
            self.assertEqual(ended.exception.code, 78)
            self.assertIn(said, str(ended.exception))
            self.assertNotIn("pw", str(ended.exception))

    def test_the_stage_goes_before_the_trial_and_names_may_be_the_sweep_file_s(self):
        found = settings.read({"stage": {"cases": ["a", "b"], "max_new_tokens": 9}, "params": {
            "context_len": 9216, "parallel": 4, "quant": "bf16", "model": "org/base"}})
        self.assertEqual((found.cases, found.max_tokens, found.context_len, found.parallel, found.quant, found.model),
                         (("a", "b"), 9, 9216, 4, "bf16", ""))
        self.assertEqual(read(endpoint="http://h:1/v1/", model="m").endpoint, "http://h:1")
        self.assertNotIn("api_key", repr(found))


class Models(unittest.TestCase):
    def test_checkpoints(self):
        with tempfile.TemporaryDirectory() as folder:
            def adapter(name):
                path = os.path.join(folder, name)
                os.makedirs(path, exist_ok=True)
                with open(os.path.join(path, "adapter_config.json"), "w", encoding="utf-8") as file:
                    file.write("{}")
                return path

            saved = [{"step": step, "path": adapter(f"c{step}"), "held_out_loss": step / 10} for step in (10, 20, 30)]
            trained = {"adapter": adapter("last"), "checkpoints": saved, "steps": 30}

            def chosen(given=None, trained=trained, **stage):
                found = models.chosen(read(**stage), {"inputs": {"train": trained}}, given)
                return found, [(model.label, model.step) for model in found]

            self.assertEqual(chosen()[1], [("candidate", 30)])
            self.assertEqual(chosen(checkpoints=[10])[1], [("candidate", 30), ("step-10", 10)])
            found, labels = chosen(checkpoints="all", incumbent="base")
            self.assertEqual([label for label, _ in labels], ["candidate", "step-10", "step-20", "step-30", "incumbent"])
            same = {"candidate": 1, "step-10": 2, "step-20": 3, "step-30": 1, "incumbent": 1}
            kept = models.without_twins(found, same)
            self.assertEqual([model.label for model in kept], ["candidate", "step-10", "step-20", "incumbent"])
            self.assertEqual(kept[0].held_out_loss, 3.0)
            self.assertEqual(chosen(given=saved[1]["path"])[0][0].name, saved[1]["path"])
            for given, trained, stage, code, said in (
                    (None, {}, {}, 66, "there is no adapter"), ("/not/there", {}, {}, 66, "no adapter in '/not/there'"),
                    (None, trained, {"checkpoints": [15]}, 78, "none of step 15; it kept 10, 20, 30"),
                    (None, trained, {"endpoint": "http://h", "model": "m", "checkpoints": "all"}, 78, "checkpoints: ")):
                with self.assertRaises(Failure) as ended:
                    chosen(given, trained, **stage)
                self.assertEqual(ended.exception.code, code)
                self.assertIn(said, str(ended.exception))

    def test_the_program_says_what_is_wrong(self):
        with Job(endpoint="http://127.0.0.1:9") as job:
            job.arguments = ["fly"]
            code, _, err = job.run()
            self.assertEqual(code, 64)
            self.assertIn("usage", err)
            job.arguments = []
            job.stage.pop("endpoint")
            code, _, err = job.run()
            self.assertEqual(code, 66)
            self.assertIn("no adapter", err)
            job.write(["{\n"])
            self.assertEqual(job.run()[0], 65)


if __name__ == "__main__":
    unittest.main()
