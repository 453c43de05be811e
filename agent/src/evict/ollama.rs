//! Unloads the models of an Ollama server through its API: `/api/ps` names those in memory, and a request without a
//! prompt and with `keep_alive` 0 unloads one (Ollama's API reference, "Unload a model"). Blocks.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

const ANSWER: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Loaded {
    #[serde(default)]
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
}

pub fn unload_all(url: &str) -> Result<(), String> {
    let config = ureq::Agent::config_builder().timeout_global(Some(ANSWER));
    let agent: ureq::Agent = config.build().into();
    let failed = |error: ureq::Error| format!("the Ollama server at {url}: {error}");
    let mut answer = agent.get(format!("{url}/api/ps")).call().map_err(failed)?;
    let loaded: Loaded = answer.body_mut().read_json().map_err(failed)?;
    for model in loaded.models {
        let ask = json!({"model": model.name, "keep_alive": 0, "stream": false});
        agent
            .post(format!("{url}/api/generate"))
            .send_json(&ask)
            .map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// Answers like Ollama to so many requests, and returns what was asked.
    fn server(requests: usize) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let mut asked = Vec::new();
            while asked.len() < requests {
                let mut stream = listener.accept().unwrap().0;
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut line, mut length) = (String::new(), 0);
                reader.read_line(&mut line).unwrap();
                let first = line.trim().to_owned();
                loop {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let answer = if first.starts_with("GET") {
                    r#"{"models":[{"name":"llama3:8b","size_vram":5},{"name":"qwen3:4b"}]}"#
                } else {
                    r#"{"done":true,"done_reason":"unload"}"#
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    answer.len()
                );
                stream.write_all((head + answer).as_bytes()).unwrap();
                asked.push(first + " " + &String::from_utf8(body).unwrap());
            }
            asked
        });
        (url, thread)
    }

    #[test]
    fn every_loaded_model_is_unloaded() {
        let (url, thread) = server(3);
        unload_all(&url).unwrap();
        let asked = thread.join().unwrap();
        assert!(asked[0].starts_with("GET /api/ps"), "{asked:?}");
        for (at, model) in [(1, "llama3:8b"), (2, "qwen3:4b")] {
            assert!(asked[at].starts_with("POST /api/generate"), "{asked:?}");
            let body = asked[at].split_once("HTTP/1.1 ").unwrap().1;
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["model"], model);
            assert_eq!(body["keep_alive"], 0);
            assert_eq!(body.get("prompt"), None, "a prompt would load it");
        }
    }

    #[test]
    fn nobody_there_is_said() {
        let error = unload_all("http://127.0.0.1:9").unwrap_err();
        assert!(
            error.contains("the Ollama server at http://127.0.0.1:9"),
            "{error}"
        );
    }
}
