// This program uses the authorization server with a strict OAuth client. It prints the results as one JSON
// object, which oauth_test.go checks. It reads its task from standard input, so that the arguments contain
// no credential.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const packages = createRequire(process.env.NODE_MODULES + "/");
const oauth = await import(packages.resolve("oauth4webapi"));

const task = JSON.parse(await text(process.stdin));
const plain = { [oauth.allowInsecureRequests]: true, signal: () => AbortSignal.timeout(30_000) };
const base = new URL(task.base);
const seen = {};

// word makes a call and returns the error of the server or of the client. It returns "" if the call succeeds.
const word = async (call) => {
  try {
    await call();
    return "";
  } catch (e) {
    return e instanceof oauth.ResponseBodyError ? `${e.status} ${e.error}` : `${e.code ?? e.name}: ${e.message}`;
  }
};

// asPerson calls the API with the person's access token, or with the given bearer token.
const asPerson = async (method, path, body, bearer = task.person) => {
  const answer = await fetch(new URL(path, base), {
    method, signal: AbortSignal.timeout(30_000),
    headers: { authorization: `Bearer ${bearer}`, ...(body && { "content-type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  const said = await answer.text();
  return { status: answer.status, body: said && answer.headers.get("content-type")?.includes("json") ? JSON.parse(said) : {} };
};

const as = await oauth.processDiscoveryResponse(base, await oauth.discoveryRequest(base, { ...plain, algorithm: "oauth2" }));
const resource = new URL(task.resource);
const server = await oauth.processResourceDiscoveryResponse(resource, await oauth.resourceDiscoveryRequest(resource, plain));
seen.resource = server.resource;

const device = async () => {
  const cli = { client_id: "signalbox-cli" };
  const begun = await oauth.deviceAuthorizationRequest(as, cli, oauth.None(), {}, plain);
  seen.cache = begun.headers.get("cache-control");
  const codes = await oauth.processDeviceAuthorizationResponse(as, cli, begun);
  const poll = async () => oauth.processDeviceCodeResponse(as, cli,
    await oauth.deviceCodeGrantRequest(as, cli, oauth.None(), codes.device_code, plain));
  const other = async () => oauth.processDeviceCodeResponse(as, { client_id: task.client },
    await oauth.deviceCodeGrantRequest(as, { client_id: task.client }, oauth.None(), codes.device_code, plain));
  const request = `/api/cli/device/requests/${codes.user_code}`;
  const out = { interval: codes.interval, expires: codes.expires_in, complete: codes.verification_uri_complete };
  out.pending = await word(poll);
  out.fast = await word(poll);
  out.client = await word(other);
  out.page = (await fetch(codes.verification_uri_complete, { signal: AbortSignal.timeout(30_000) })).status;
  out.asked = (await asPerson("GET", request)).body;
  out.approved = (await asPerson("POST", request, { decision: "approve" })).body.state;
  const token = await poll();
  out.type = token.token_type;
  out.lives = token.expires_in;
  out.me = (await asPerson("GET", "/api/auth/me", undefined, token.access_token)).body.username;
  out.again = await word(poll);
  const denied = await oauth.processDeviceAuthorizationResponse(as, cli, await oauth.deviceAuthorizationRequest(as, cli, oauth.None(), {}, plain));
  await asPerson("POST", `/api/cli/device/requests/${denied.user_code}`, { decision: "deny" });
  out.denied = await word(async () => oauth.processDeviceCodeResponse(as, cli,
    await oauth.deviceCodeGrantRequest(as, cli, oauth.None(), denied.device_code, plain)));
  return out;
};

const client = { client_id: task.client };
const redirect = task.redirect;

// allowed returns an authorization code that the person has approved, with its verifier.
const allowed = async (change = {}) => {
  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  const { status, body } = await asPerson("POST", "/api/oauth/authorize", {
    response_type: "code", client_id: task.client, redirect_uri: redirect, resource: task.resource, scope: "read", state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256", approve: true, ...change,
  });
  if (status !== 200) throw new Error(`authorize: ${status} ${JSON.stringify(body)}`);
  return { verifier, params: oauth.validateAuthResponse(as, client, new URL(body.redirect_to), state) };
};
const exchange = async ({ verifier, params }, wanted = { resource: task.resource }) => oauth.processAuthorizationCodeResponse(as, client,
  await oauth.authorizationCodeGrantRequest(as, client, oauth.None(), params, redirect, verifier, { ...plain, additionalParameters: wanted }));
const refresh = async (token) => oauth.processRefreshTokenResponse(as, client,
  await oauth.refreshTokenGrantRequest(as, client, oauth.None(), token, plain));
const checked = async (token) => oauth.validateJwtAccessToken(as,
  new Request(resource, { headers: { authorization: `Bearer ${token}` } }), task.resource, plain);

const code = async () => {
  const out = {};
  try {
    await allowed({ approve: false });
  } catch (e) {
    out.denied = e.error;
  }
  const grant = await allowed();
  out.verifier = await word(() => exchange({ ...grant, verifier: oauth.generateRandomCodeVerifier() }));
  out.target = await word(() => exchange(grant, { resource: task.base }));
  const first = await exchange(grant);
  const claims = await checked(first.access_token);
  out.claims = { iss: claims.iss, aud: claims.aud, scope: claims.scope, client_id: claims.client_id, lives: claims.exp - claims.iat };
  out.api = (await asPerson("GET", "/api/auth/me", undefined, first.access_token)).status;
  const second = await refresh(first.refresh_token);
  out.scope = second.scope;
  await checked(second.access_token);
  out.reuse = await word(() => refresh(first.refresh_token));
  out.family = await word(() => refresh(second.refresh_token));
  const replayed = await allowed();
  const given = await exchange(replayed);
  out.replay = await word(() => exchange(replayed));
  out.replayed = await word(() => refresh(given.refresh_token));
  const ended = await exchange(await allowed());
  await oauth.processRevocationResponse(await oauth.revocationRequest(as, client, oauth.None(), ended.refresh_token, plain));
  out.revoked = await word(() => refresh(ended.refresh_token));
  return out;
};

seen.device = await device();
seen.code = await code();
process.stdout.write(JSON.stringify(seen));
