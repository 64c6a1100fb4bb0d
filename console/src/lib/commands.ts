// Commands that people copy into a terminal. They need only curl and jq.

export function signInCommand(origin: string, username: string): string {
  return `BASE=${origin}
read -rs PASSWORD && TOKEN=$(jq -n --arg p "$PASSWORD" '{username: ${quoted(username)}, password: $p}' |
  curl -s $BASE/api/auth/login -H 'Content-Type: application/json' -d @- | jq -r .token)`;
}

export function firstJobCommand(project: string): string {
  return `AUTH="Authorization: Bearer $TOKEN"
VERSION=$(curl -s $BASE/api/recipes/custom/custom -H "$AUTH" | jq -r .version)
curl -s $BASE/api/recipes/custom/custom/versions/$VERSION/lock -H "$AUTH" |
  jq --arg v "$VERSION" '{api: "service/v1", spec: {name: "hello", project: ${quoted(project)},
    source: {command: ["echo", "hello"]}, resources: {pools: [{pool: "default"}]},
    recipe: {name: "custom/custom", version: $v, lock: .}}}' |
  curl -s $BASE/api/jobs -H "$AUTH" -H 'Content-Type: application/json' -d @- | jq '{id, state}'`;
}

// firstJobScript signs in and submits a job. The braces make the shell read all lines before the password.
export function firstJobScript(origin: string, username: string, project: string): string {
  return ["{", signInCommand(origin, username), firstJobCommand(project), "}"].join("\n");
}

export function firstDeploymentCommand(project: string): string {
  return `curl -s $BASE/api/model-deployments -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
  -d '{"name": "first", "project": ${quoted(project)}}' | jq '{id, url}'`;
}

// firstRunProgram is a Python program that reports a run from any machine. Its token is the user's.
export function firstRunProgram(origin: string, project: string): string {
  return `# SERVICE_SERVER=${origin} SERVICE_TOKEN=$TOKEN python3 train.py
import signalbox

with signalbox.init(project=${quoted(project)}, name="first") as run:
    for step in range(100):
        run.log({"loss": 1 / (step + 1)}, step=step)`;
}

// quoted returns a JSON string that is safe inside single quotes of a shell.
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll("'", "\\u0027");
}

// readJobCommand prints a job.
export function readJobCommand(origin: string, id: string): string {
  return `curl -s ${origin}/api/jobs/${id} -H "Authorization: Bearer $TOKEN"`;
}
