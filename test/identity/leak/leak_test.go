package leak

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// minSpans is the minimum number of spans that the test must produce.
const minSpans = 200

func TestInstallation_leaksNoCredentials(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	traces := newCollector(t)
	s := testenv.Single(t, testenv.Options{Env: map[string]string{"SERVICE_OTLP_ENDPOINT": traces.URL, "SERVICE_LOG_LEVEL": "debug"}})
	arguments := watchArguments(t, s.Dir)
	h := open(ctx, t, s)
	h.identities(ctx, t)
	h.ingest(ctx, t)
	h.serve(ctx, t)
	conn := connect(ctx, t, s)
	h.callOtherRoutes(ctx, t, conn)
	t.Run("every change is in the audit", func(t *testing.T) { h.requireAuditRows(ctx, t) })
	h.recordKeys(ctx, t, conn)
	h.recordTokenHeaders(ctx, t, conn)
	for _, kind := range []string{
		"first password", "bearer", "cookie service_refresh", "JSON's token", "JSON's access_token", "JSON's device_code", "JSON's password",
		"ingest token", "service token", "deployment token", "signature of a URL", "key in keys/keyring", "key in keys/audit",
		"key in keys/blobs", "key in postgres/password", "signing_key.sealed", "work.engine_key",
		"secret of a setting", "authorization code", "code verifier", "JSON's refresh_token", "sign-in link", "start of an svc-caller+jwt",
	} {
		require.Contains(t, h.credentialStore.names(), kind, "every kind of credential must be searched for")
	}
	t.Run("tampering with the audit is reported", func(t *testing.T) { h.requireTamperingReported(ctx, t, conn) })
	t.Run("a planted row is found", func(t *testing.T) { requireRowFound(ctx, t, h) })
	require.Empty(t, h.credentialStore.search("the database", dump(ctx, t, s, conn)))
	requireArgumentFound(ctx, t, h)
	seen := arguments.arguments()
	require.Contains(t, string(seen), "--data", "the arguments of signalboxd must be recorded")
	require.Greater(t, strings.Count(string(seen), "\n"), 5, "the arguments of the training and of the engine must be recorded")
	require.Empty(t, h.credentialStore.search("the arguments", seen))
	_, ended := s.Processes["signalboxd"].Stop(testenv.StageTimeout) // flushes the remaining spans
	require.True(t, ended)
	spans, n := traces.received()
	require.Greater(t, n, minSpans)
	require.Empty(t, h.credentialStore.search("the traces", spans))
	t.Run("a planted attribute is found", func(t *testing.T) { requireAttributeFound(ctx, t, h, traces) })
	logged := logs(t, s)
	require.Greater(t, strings.Count(string(logged), "\n"), 50)
	require.Empty(t, h.credentialStore.search("the logs", logged))
	t.Run("a planted line is found", func(t *testing.T) { requireLineFound(t, h, logged) })
}

// requireRowFound checks the search itself: it writes a token into a row in different encodings, searches a dump,
// and rolls back.
func requireRowFound(ctx context.Context, t *testing.T, h *installation) {
	t.Helper()
	conn := connect(ctx, t, h.Installation)
	token := h.loop.Token.Reveal()
	for name, planted := range map[string]string{
		"plain": token, "base64": base64.StdEncoding.EncodeToString([]byte("Bearer " + token)), "hex": hex.EncodeToString([]byte(token)),
	} {
		_, err := conn.Exec(ctx, `BEGIN`)
		require.NoError(t, err)
		_, err = conn.Exec(ctx, `UPDATE auth.project SET name = $1`, planted)
		require.NoError(t, err)
		require.Contains(t, strings.Join(h.credentialStore.search("a dump", dumpTable(ctx, t, conn, "auth.project")), "\n"), "the deployment token", name)
		_, err = conn.Exec(ctx, `ROLLBACK`)
		require.NoError(t, err)
	}
	_, err := conn.Exec(ctx, `BEGIN`)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, `CREATE TABLE auth.careless AS SELECT convert_to($1, 'UTF8') AS bytes`, token)
	require.NoError(t, err)
	require.NotEmpty(t, h.credentialStore.search("a dump", dumpTable(ctx, t, conn, "auth.careless")), "bytes")
	_, err = conn.Exec(ctx, `ROLLBACK`)
	require.NoError(t, err)
}

// requireArgumentFound checks the watch itself: it starts a program with a token as argument and requires that the
// argumentWatch records it.
func requireArgumentFound(ctx context.Context, t *testing.T, h *installation) {
	t.Helper()
	dir := "/planted/" + randomName(t)
	w := watchArguments(t, dir)
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "echo there; read wait", h.loop.Token.Reveal())
	cmd.Env = []string{"FOLDER=" + dir}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1)) // wait for output: a process that has just started may not have its arguments yet
	require.NoError(t, err)
	w.poll()
	require.Contains(t, strings.Join(h.credentialStore.search("the arguments", w.arguments()), "\n"), "the deployment token")
	require.NoError(t, in.Close())
	_ = cmd.Wait() // the shell's read fails at the end of the input
}

// requireAttributeFound checks the search of the traces: it sends a span with a token in an attribute.
func requireAttributeFound(ctx context.Context, t *testing.T, h *installation, c *collector) {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(c.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	value := &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: "Bearer " + h.loop.Token.Reveal()}}
	_, err = collectorv1.NewTraceServiceClient(conn).Export(ctx, &collectorv1.ExportTraceServiceRequest{ResourceSpans: []*tracev1.ResourceSpans{{
		ScopeSpans: []*tracev1.ScopeSpans{{Spans: []*tracev1.Span{{
			Name: "GET", Attributes: []*commonv1.KeyValue{{Key: "http.request.header.authorization", Value: value}},
		}}}},
	}}})
	require.NoError(t, err)
	spans, _ := c.received()
	require.Contains(t, strings.Join(h.credentialStore.search("the traces", spans), "\n"), "the deployment token")
}

// requireLineFound checks the search of the logs: it adds a token in each encoding to a log line.
func requireLineFound(t *testing.T, h *installation, logged []byte) {
	t.Helper()
	token := h.loop.Token.Reveal()
	for shift := range 3 {
		header := strings.Repeat("x", shift) + token + "yz"
		for name, text := range map[string]string{
			"plain": header, "base64": base64.StdEncoding.EncodeToString([]byte(header)), "url": base64.RawURLEncoding.EncodeToString([]byte(header)),
			"hex": hex.EncodeToString([]byte(header)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(header))),
		} {
			line := append(append([]byte{}, logged...), `{"level":"INFO","msg":"request","header":"`+text+`"}`...)
			require.NotEmpty(t, h.credentialStore.search("the log", line), "%s %d", name, shift)
		}
	}
}
