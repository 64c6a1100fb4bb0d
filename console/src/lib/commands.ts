// Commands that people copy into a terminal. They are those of the program signalbox; a login comes first.

export function logInCommand(origin: string): string {
  return `signalbox login --server ${origin}`;
}

// firstJobCommand submits a job with the newest version of a recipe, and prints its log until it has ended.
export function firstJobCommand(project: string): string {
  return `signalbox jobs submit -f - --follow << 'JOB'
name: hello
project: ${JSON.stringify(project)}
recipe: custom/custom
source: {command: [echo, hello]}
resources: {pools: [{pool: default}]}
JOB`;
}

// afterLogIn is a command for a terminal that may not be logged in yet.
export function afterLogIn(origin: string, command: string): string {
  return `${logInCommand(origin)}\n${command}`;
}

export const readJobCommand = (id: string) => `signalbox jobs get ${id}`;
export const pullCommand = (run: string) => `signalbox artifacts pull ${run} --dir ${run}`;

export const firstProjectCommand = "signalbox projects create search --name 'Search quality'";
export const firstTeamCommand = "signalbox teams create nlp --name 'Language'";
export const firstFleetCommand = "signalbox fleets create lab --pool default";
export const joinTokenCommand = (fleet: string) => `signalbox fleets token ${fleet}`;
export const firstShareCommand = "signalbox share create RUN --days 7";
export const firstRubricCommand = "signalbox rubrics push first --file rubric.yaml";
export const firstModelCommand = "signalbox models register first --run RUN";
export const firstDatasetCommand = "signalbox datasets push first ./data";
// The command line has no verb for this one.
export const firstEnvironmentCommand = "signalbox api POST /api/environments --field name=first";

export function firstDeploymentCommand(project: string): string {
  return `signalbox deployments create first --project ${word(project)}`;
}

export const firstRevisionCommand = (deployment: string) => `signalbox deployments revise ${deployment} --model MODEL`;
export const firstTokenCommand = (deployment: string) => `signalbox deployments tokens create ${deployment} laptop`;

// firstRunProgram is a Python program that reports a run from any machine. Its token is the user's.
export function firstRunProgram(origin: string, project: string): string {
  return `# SERVICE_SERVER=${origin} SERVICE_TOKEN=$TOKEN python3 train.py
import signalbox

with signalbox.init(project=${JSON.stringify(project)}, name="first") as run:
    for step in range(100):
        run.log({"loss": 1 / (step + 1)}, step=step)`;
}

// word returns a text as one word of a shell.
function word(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
