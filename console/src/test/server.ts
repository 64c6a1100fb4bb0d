// A server for tests of whole screens. Its data is in capitals, so that a test can tell it from texts.
const at = "2026-11-24T12:00:00.000000+00:00";

const job = {
  id: "job_01M87WK8A1DDSGHJRYX2BDK2CD",
  run_id: "run_01M87WK8A1DDSGHJRYX2HQTJ7W",
  name: "PLAN-A",
  state: "running",
  end_reason: null,
  message: null,
  project: "VIS",
  owner: "MEI",
  labels: {},
  queue: null,
  attempt: 2,
  spec: { recipe: { name: "R/R", version: "1" }, resources: { pools: [{ pool: "P", nodes: 1, gpus_per_node: 8 }] } },
  warnings: [],
  created_at: at,
  starting_at: at,
  ended_at: null,
  paused_at: null,
  checkpoint: { step: 100 },
  version: 3,
};
const project = {
  id: "prj_1",
  key: "VIS",
  name: "VISION",
  description: null,
  team_id: null,
  visibility: "team",
  created_at: at,
  archived_at: null,
};
const profile = {
  username: "MEI",
  role: "admin",
  display_name: null,
  email: null,
  locale: null,
  tz: "UTC",
  theme: null,
  default_project: "VIS",
};
const own = {
  id: "ses_1",
  method: "password",
  client_address: "127.0.0.1",
  client_name: null,
  created_at: at,
  last_used_at: at,
  current: false,
};

const bodies: Record<string, unknown> = {
  "/api/auth/refresh": { token: "T", user: { username: "MEI", role: "admin" } },
  "/api/auth/config": { methods: ["password"], oidc: null, installation: "BOX", announcement: null, maintenance: null },
  "/api/profile": profile,
  "/api/profile/sessions": [own],
  "/api/projects": [project],
  "/api/projects/prj_1/members": [{ username: "MEI", role: "owner" }],
  "/api/quota": { gpu_limit: 8, gpu_held: 2, gpu_queued: 0, gpu_available: 6 },
  "/api/cluster": {
    nodes: 2,
    nodes_by_state: { ready: 2 },
    gpus_total: 16,
    gpus_free: 8,
    jobs_queued: 1,
    jobs_placed: 2,
  },
  "/api/models": [
    {
      id: "mdl_1",
      name: "CHAT-B",
      project: "VIS",
      owner: "MEI",
      description: "",
      task: "chat",
      latest_version: 1,
      aliases: {},
      created_at: at,
    },
  ],
  "/api/model-deployments": [],
  "/api/datasets": [],
  "/api/environments": [],
  "/api/rubrics": [],
  "/api/fleets": [],
  "/api/teams": [],
  "/api/recipes": [{ name: "R/R", version: "1", title: "RECIPE", description: "", state: "active", trusted: true }],
};

// urlOf returns the address of a request as fetch gets it.
export const urlOf = (input: RequestInfo | URL) =>
  new URL(input instanceof Request ? input.url : String(input), "http://127.0.0.1");

// respond takes the place of fetch.
export async function respond(input: RequestInfo | URL): Promise<Response> {
  const url = urlOf(input);
  if (url.pathname === "/api/jobs/stream") {
    return new Response('id: 1\nevent: reset\ndata: {"reason":"start"}\n\nid: 2\nevent: eof\ndata: {}\n\n');
  }
  if (url.pathname === "/api/jobs") return Response.json(url.searchParams.get("q") ? [] : [job]);
  const body = bodies[url.pathname];
  return body === undefined ? Response.json({ detail: "not here" }, { status: 404 }) : Response.json(body);
}
