package setup_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox-setup/internal/setup"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// secrets serves the Secrets of the namespace ml as the API server of Kubernetes does: a Secret is created once, and changed
// only by those who have read its present version. `make kube` runs the chart with a real API server.
type secrets struct {
	t *testing.T

	mu       sync.Mutex
	data     map[string]map[string][]byte
	types    map[string]string
	versions map[string]int
	// refuse is the name of a Secret whose changes fail.
	refuse string
}

type secretBody struct {
	Type     string `json:"type"`
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string][]byte `json:"data"`
}

func (s *secrets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	respond := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/ml/secrets")
	if !ok || r.Header.Get("Authorization") != "Bearer the-token" {
		respond(http.StatusForbidden, map[string]string{"message": "secrets is forbidden"})
		return
	}
	var body secretBody
	if r.Method != http.MethodGet && json.NewDecoder(r.Body).Decode(&body) != nil {
		respond(http.StatusBadRequest, nil)
		return
	}
	name = strings.TrimPrefix(name, "/") + body.Metadata.Name
	known := s.data[name] != nil
	stale := body.Metadata.ResourceVersion != strconv.Itoa(s.versions[name])
	switch {
	case r.Method == http.MethodGet && known:
		body.Metadata.Name, body.Metadata.ResourceVersion, body.Data = name, strconv.Itoa(s.versions[name]), s.data[name]
		respond(http.StatusOK, body)
	case r.Method == http.MethodGet:
		respond(http.StatusNotFound, map[string]string{"message": "not found"})
	case name == s.refuse, r.Method == http.MethodPost && known, r.Method == http.MethodPatch && (!known || stale):
		respond(http.StatusConflict, map[string]string{"message": "the object has been modified"})
	default:
		if !known {
			s.data[name], s.types[name] = map[string][]byte{}, body.Type
		}
		maps.Copy(s.data[name], body.Data)
		s.versions[name]++
		respond(http.StatusOK, body)
	}
}

func newSecrets(t *testing.T) *secrets {
	t.Helper()
	return &secrets{t: t, data: map[string]map[string][]byte{}, types: map[string]string{}, versions: map[string]int{}}
}

// run runs the command in a pod with a new folder.
func (s *secrets) run(clk clock.Clock, args ...string) (string, error) {
	s.t.Helper()
	server := httptest.NewTLSServer(s)
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(s.t, err)
	account := s.t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, content := range map[string]string{"token": "the-token", "namespace": "ml", "ca.crt": string(ca)} {
		require.NoError(s.t, os.WriteFile(filepath.Join(account, name), []byte(content), 0o600))
	}
	variables := map[string]string{"KUBERNETES_SERVICE_HOST": at.Hostname(), "KUBERNETES_SERVICE_PORT": at.Port()}
	var out bytes.Buffer
	args = append([]string{"kubernetes", "--secrets", "sb", "--account", account, "--dir", filepath.Join(s.t.TempDir(), "work")}, args...)
	err = setup.Main(pgtest.Context(s.t), args, func(name string) string { return variables[name] }, clk, &out, &out)
	return out.String(), err
}

func (s *secrets) snapshot() map[string]map[string][]byte {
	out := map[string]map[string][]byte{}
	for name, data := range s.data {
		out[name] = maps.Clone(data)
	}
	return out
}

func TestKubernetes_createsOnce(t *testing.T) {
	t.Parallel()
	s, admin := newSecrets(t), adminURL(t)
	args := []string{"--keys", "--certs", "--admin-url-file", admin}
	printed, err := s.run(clock.Real(), args...)
	require.NoError(t, err)
	require.Equal(t, 9, strings.Count(printed, "created the Secret sb-"), printed)
	require.ElementsMatch(t, []string{"audit-key", "blob-key", "database-seed", "keyring"}, slices.Collect(maps.Keys(s.data["sb-keys"])))
	require.Len(t, s.data["sb-database"], 10)
	require.Contains(t, string(s.data["sb-database"]["jobs.database-owner-url"]), "signalbox_jobs_owner:")
	require.Equal(t, "kubernetes.io/tls", s.types["sb-ca"])
	for _, name := range setup.Identities() {
		tls := s.data["sb-tls-"+name]
		identity, err := pki.Parse(tls["tls.crt"], tls["tls.key"], tls["ca.crt"])
		require.NoError(t, err)
		require.Equal(t, name, identity.Name)
		require.Equal(t, s.data["sb-ca"]["tls.crt"], tls["ca.crt"])
	}
	before := s.snapshot()
	printed, err = s.run(clock.Real(), args...)
	require.NoError(t, err)
	require.Empty(t, printed)
	require.Equal(t, before, s.data, "a second run must change nothing")
}

func TestKubernetes_renewsCertificates(t *testing.T) {
	t.Parallel()
	s, clk := newSecrets(t), clock.NewFake(clock.Real().Now())
	_, err := s.run(clk, "--keys", "--certs")
	require.NoError(t, err)
	before := s.snapshot()
	clk.Advance(pki.DefaultServiceLife / 2)
	printed, err := s.run(clk, "--certs")
	require.NoError(t, err)
	require.Empty(t, printed)
	clk.Advance(pki.DefaultServiceLife / 4)
	printed, err = s.run(clk, "--certs")
	require.NoError(t, err)
	require.Equal(t, 6, strings.Count(printed, "changed the Secret sb-tls-"), printed)
	require.Equal(t, before["sb-ca"], s.data["sb-ca"])
	require.Equal(t, before["sb-keys"], s.data["sb-keys"])
	require.NotEqual(t, before["sb-tls-auth"]["tls.crt"], s.data["sb-tls-auth"]["tls.crt"])
}

// A Secret that was lost is not replaced by another one, which would make others useless.
func TestKubernetes_lostSecret(t *testing.T) {
	t.Parallel()
	s, admin := newSecrets(t), adminURL(t)
	args := []string{"--keys", "--certs", "--admin-url-file", admin}
	_, err := s.run(clock.Real(), args...)
	require.NoError(t, err)
	whole := s.snapshot()
	for _, name := range []string{"sb-keys", "sb-ca"} {
		s.data = maps.Clone(whole)
		delete(s.data, name)
		_, err = s.run(clock.Real(), args...)
		require.ErrorContains(t, err, "the Secret "+name+" is missing, but sb-")
		require.NotContains(t, s.data, name)
	}
	s.data = maps.Clone(whole)
	s.data["sb-keys"] = map[string][]byte{"keyring": whole["sb-keys"]["keyring"]}
	_, err = s.run(clock.Real(), args...)
	require.ErrorContains(t, err, "the Secret sb-keys has no key audit-key")
}

// A run that fails at any Secret is completed by the next one.
func TestKubernetes_repeatedAfterFailure(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{"sb-keys", "sb-ca", "sb-tls-auth", "sb-tls-gateway"} {
		s := newSecrets(t)
		s.refuse = refused
		_, err := s.run(clock.Real(), "--keys", "--certs")
		require.ErrorContains(t, err, "create the Secret "+refused+": the API server responded with status 409: the object has been modified")
		s.refuse = ""
		_, err = s.run(clock.Real(), "--keys", "--certs")
		require.NoError(t, err)
		require.Len(t, s.data, 8)
		for _, name := range setup.Identities() {
			require.Equal(t, s.data["sb-ca"]["tls.crt"], s.data["sb-tls-"+name]["ca.crt"], refused)
		}
	}
}

func TestKubernetes_arguments(t *testing.T) {
	t.Parallel()
	s := newSecrets(t)
	_, err := s.run(clock.Real())
	require.ErrorContains(t, err, "needs --keys or --certs")
	_, err = s.run(clock.Real(), "--certs", "--admin-url-file", "absent")
	require.ErrorContains(t, err, "--admin-url-file needs --keys")
	_, err = setUp(t, "kubernetes", "--keys")
	require.ErrorContains(t, err, "KUBERNETES_SERVICE_HOST")
	require.Empty(t, s.data)
}
