// This program runs oidc-provider, a certified OpenID provider, for tests. It has one confidential client
// and requires PKCE. Its interactions have no pages: `login_hint` contains the account that signs in, and
// the value `deny` cancels the sign-in.
//
// Environment: NODE_MODULES (scripts/tools/npm.sh), CLIENT_ID, CLIENT_SECRET, PORT (0 selects a free port).
// It prints its issuer on one line and serves until its standard input is closed. PUT /people replaces its
// accounts: {"ann": {"groups": ["admins"], ...}}.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const { Provider } = createRequire(`${process.env.NODE_MODULES}/`)('oidc-provider');

let people = {};

const server = createServer();
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });

const provider = new Provider(issuer, {
  clients: [{
    client_id: process.env.CLIENT_ID,
    client_secret: process.env.CLIENT_SECRET,
    // A native client may use any port of a registered loopback address (RFC 8252 7.3).
    application_type: 'native',
    redirect_uris: ['http://127.0.0.1/auth/callback'],
    grant_types: ['authorization_code'],
    response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_basic',
  }],
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: randomBytes(8).toString('hex') }] },
  cookies: { keys: [randomBytes(16).toString('hex')] },
  pkce: { required: () => true },
  claims: { openid: ['sub'], profile: ['preferred_username'], email: ['email', 'email_verified'], groups: ['groups'] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_, id) => people[id] && { accountId: id, claims: () => ({ ...people[id], sub: id }) },
});

async function interact(req, res) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(req, res);
  if (params.login_hint === 'deny') {
    return provider.interactionFinished(req, res, { error: 'access_denied' }, { mergeWithLastSubmission: false });
  }
  if (prompt.name === 'login') {
    return provider.interactionFinished(req, res, { login: { accountId: params.login_hint } }, { mergeWithLastSubmission: false });
  }
  const grant = grantId ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

async function replace(req, res) {
  let text = '';
  for await (const part of req) text += part;
  people = JSON.parse(text);
  res.writeHead(204).end();
}

const serve = provider.callback();

server.on('request', (req, res) => {
  const own = req.url.startsWith('/interaction/') ? interact : req.url === '/people' ? replace : null;
  if (!own) return serve(req, res);
  own(req, res).catch((err) => {
    console.error(err);
    res.writeHead(500).end();
  });
});

console.log(issuer);
process.stdin.resume().on('end', () => process.exit(0));
