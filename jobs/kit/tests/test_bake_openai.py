"""bake.py against a strict OpenAI endpoint that fails, is slow or talks rubbish: such things are never misses."""
import json
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from bake_job import CASES, Job, case, right
from bake_servers import Ollama, OpenAI


def perfect(_model, text):
    return right(text)


class Endpoint(unittest.TestCase):
    def baked(self, server, **stage):
        """(code, out, err, job) of one bake; the job's folder lives as long as the test."""
        job = Job(**{"endpoint": server.url + "/v1", **stage})
        self.addCleanup(job.folder.cleanup)
        return (*job.run(), job)

    def test_each_kind_of_server_is_baked_and_its_context_checked(self):
        for kind, context in (("plain", None), ("llama", 8192), ("vllm", 8192)):
            with OpenAI(perfect, kind) as server:
                code, out, err, job = self.baked(server)
                self.assertEqual((code, err), (0, ""), kind)
                self.assertEqual(job.result()["overall"], 1.0)
                self.assertEqual(job.result()["server"], {"context": context})
                self.assertEqual("does not say its context" in out, context is None)

    def test_a_context_smaller_than_the_setting_is_refused(self):
        for kind in ("llama", "vllm"):
            with OpenAI(perfect, kind, context=1024) as server:
                code, _, err, _ = self.baked(server)
                self.assertEqual(code, 78)
                self.assertIn("a context of 1024 tokens for each request, context_len is 2048", err)

    def test_a_server_that_trims_in_silence_is_noticed(self):
        cases = [case("long", "word " * 900, "none", "held_out")]
        with OpenAI(lambda *_: "{}", context=600) as server:
            code, _, err, job = self.baked(server, cases=cases)
            self.assertEqual(code, 78)
            self.assertIn("the server read 302 tokens of a prompt of at least", err)
            self.assertEqual(job.answers(), [])

    def test_a_server_that_does_not_say_what_it_read_is_refused(self):
        with OpenAI(perfect, usage=False) as server:
            code, _, err, _ = self.baked(server)
            self.assertEqual(code, 68)
            self.assertIn("usage.prompt_tokens", err)

    def test_an_ollama_here_is_sent_to_its_own_api(self):
        with Ollama(perfect) as server:
            code, _, err, _ = self.baked(server)
            self.assertEqual(code, 78)
            self.assertIn('set server = "ollama"', err)

    def test_a_model_that_is_not_served_is_missing(self):
        for kind in ("plain", "llama", "vllm"):
            with OpenAI(perfect, kind, model="other") as server:
                code, _, err, _ = self.baked(server)
                self.assertEqual(code, 66, kind)
                self.assertIn("'router'", err)

    def test_an_incumbent_that_is_the_same_model_is_refused(self):
        with OpenAI(perfect) as server:
            for stage in ({"incumbent": "router"}, {"incumbent": "base", "base_model": "router"}, {"incumbent": "base"}):
                code, _, err, _ = self.baked(server, **stage)
                self.assertEqual(code, 78)
                self.assertIn("incumbent: ", err)
                self.assertEqual(server.asked, [])

    def test_passing_failures_are_tried_again_and_are_no_misses(self):
        faults = [(500, {"error": "boom"}), (429, {"error": "slow down"}), (200, b"<html>busy</html>"), (0, b""),
                  (503, b""), (200, {"error": "runner gone"})]
        with OpenAI(perfect, "llama") as server:
            server.faults = list(faults)
            code, out, err, job = self.baked(server, retries=len(faults))
            self.assertEqual((code, err), (0, ""), out)
            self.assertEqual((job.result()["overall"], job.result()["unparseable"]), (1.0, 0))
            self.assertEqual(len(server.asked), len(CASES) + len(faults))

    def test_failures_that_last_end_the_bake_and_leave_the_case_open(self):
        kinds = [((500, {"error": "boom"}), "HTTP 500: boom"), ((200, b"rubbish"), "no JSON"), ((0, b""), "failed, tried"),
                 ((200, {"choices": []}), "no `choices`"), ((302, b""), "it points to")]
        for fault, said in kinds:
            with OpenAI(perfect, "llama") as server:
                server.on_case = lambda number, server=server, fault=fault: number == 3 and server.faults.extend([fault] * 9)
                code, out, err, job = self.baked(server, retries=1)
                self.assertEqual(code, 68, said)
                self.assertIn(said, err)
                self.assertEqual(json.loads(out.splitlines()[-1])["error"], "server_error")
                kept = len(job.answers())
                self.assertEqual(kept, 3)   # the fault comes after the third
                server.faults.clear()
                server.on_case = lambda number: None
                self.assertEqual(job.run()[0], 0)
                self.assertEqual((len(job.answers()), job.result()["overall"]), (6, 1.0))

    def test_a_timeout_is_no_miss(self):
        with OpenAI(lambda *_: None, "llama") as server:
            code, _, err, job = self.baked(server, timeout=0.2, retries=0)
            self.assertEqual(code, 68)
            self.assertIn("no answer within 0.2 s", err)
            self.assertEqual(job.answers(), [])

    def test_a_server_that_is_not_there(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            with Job(endpoint=f"http://127.0.0.1:{free.getsockname()[1]}", retries=1) as job:
                code, _, err = job.run()
                self.assertEqual(code, 68)
                self.assertIn("failed, tried 2 times", err)

    def test_the_key_is_sent_and_never_printed(self):
        secret = "sk-very-secret"
        with OpenAI(perfect, "vllm", key=secret) as server:
            job = Job(endpoint=server.url, api_key_env="ROUTER_KEY")
            self.addCleanup(job.folder.cleanup)
            self.assertEqual(job.run()[0], 78)   # not set
            job.environment["ROUTER_KEY"] = secret
            code, out, err = job.run()
            self.assertEqual((code, err), (0, ""))
            server.key = "another"
            job.stage["max_tokens"] = 5
            code, out, err = job.run()
            self.assertEqual(code, 78)
            self.assertIn("refuses the key", err)
            server.key, server.faults = secret, [(500, {"error": f"key {secret} broke it"})] * 9
            code, more, last = job.run()
            self.assertEqual(code, 68)
            self.assertIn("key *** broke it", last)
            report = json.dumps(job.report()) + json.dumps(job.answers())
            self.assertNotIn(secret, out + err + more + last + report)

    def test_several_at_once_give_the_same_and_keep_what_came_in(self):
        with OpenAI(perfect, "llama") as server:
            server.on_case = lambda number: number == 5 and server.faults.extend([(500, b"")] * 9)
            code, _, _, job = self.baked(server, parallel=3, retries=0, passes=2)
            self.assertEqual(code, 68)
            kept = len(job.answers())
            server.on_case = lambda number: None
            server.faults.clear()
            asked = len(server.asked)
            self.assertEqual(job.run()[0], 0)
            self.assertEqual(len(server.asked) - asked, 12 - kept)
            self.assertEqual((len(job.answers()), job.result()["overall"]), (12, 1.0))

    def test_asked_to_stop_with_several_under_way_it_keeps_them_and_ends_with_75(self):
        with OpenAI(perfect, "llama") as server, Job(endpoint=server.url, parallel=2, passes=2) as job:
            holder = {}
            server.on_case = lambda number: number == 3 and holder["process"].terminate()
            holder["process"] = job.start()
            out, _ = holder["process"].communicate(timeout=60)
            self.assertEqual(holder["process"].returncode, 75, out)
            self.assertIn(len(job.answers()), (3, 4))
            self.assertEqual(len(job.answers()), len(server.asked))
            self.assertEqual(job.run()[0], 0)
            self.assertEqual(len(server.asked), 12)


if __name__ == "__main__":
    unittest.main()
