// What the journeys need of the server beside the browser: requests of the public API, and jobs.
import { waited } from "./limit.mjs";

// beat is a training that prints and reports a step ten times a second until it is stopped.
export const beat = `
import time, signalbox
with signalbox.init() as run:
    run.starting()
    run.running()
    step = 0
    while not run.should_stop():
        step += 1
        print("line", step, flush=True)
        run.log({"beat": step}, step=step)
        time.sleep(0.1)
`;

// Server calls the API as one user.
export class Server {
  constructor(url, username, password) {
    Object.assign(this, { url, username, password });
  }

  async signIn() {
    const { token } = await this.request("POST", "/api/auth/login", { username: this.username, password: this.password });
    this.token = token;
    return this;
  }

  // send returns the response to a request, whatever its status is. It waits as long as the server requests if there were too
  // many sign-ins from one address.
  async send(method, path, body, token = this.token) {
    const headers = { "Content-Type": "application/json" };
    if (token) headers.Authorization = `Bearer ${token}`;
    for (let tries = 1; ; tries++) {
      const response = await fetch(this.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
      if (!(await waited(`${response.status} ${method} ${path}`, response.headers.get("retry-after"), tries))) return response;
    }
  }

  async request(method, path, body) {
    const response = await this.send(method, path, body);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  get = (path) => this.request("GET", path);
  post = (path, body) => this.request("POST", path, body);

  // command submits a job that runs a command.
  async command(name, command, rest = {}) {
    const { version } = await this.get("/api/recipes/custom/custom");
    const lock = await this.get(`/api/recipes/custom/custom/versions/${version}/lock`);
    const { pool = {}, ...more } = rest;
    return this.post("/api/jobs", {
      api: "service/v1",
      spec: {
        name,
        source: { command },
        recipe: { name: "custom/custom", version, lock },
        resources: { pools: [{ pool: "default", ...pool }] },
        ...more,
      },
    });
  }

  // outside creates a run without a job. report sends a report of the run.
  async outside(name, rest = {}) {
    const { run, endpoint, token } = await this.post("/api/runs", { name, project: "default", ...rest });
    const base = `${this.url}${new URL(endpoint).pathname.replace(/\/$/, "")}`;
    const report = async (route, body) => {
      const response = await fetch(`${base}/${route}`, {
        method: "POST",
        headers: { "X-Service-Token": token, "Content-Type": "application/json" },
        body: JSON.stringify({ run_id: run.id, ...body }),
      });
      if (!response.ok) throw new Error(`${route}: ${response.status} ${await response.text()}`);
    };
    return { run, report };
  }

  // job waits until a job is in one of the states, and returns it.
  job = (id, ...states) => this.until(`/api/jobs/${id}`, (job) => states.includes(job.state));

  // until reads a path until the condition holds for what it returns.
  async until(path, condition) {
    for (;;) {
      const read = await this.get(path);
      if (condition(read)) return read;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}
