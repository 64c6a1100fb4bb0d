//go:build kube

package chart

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// server is a real API server, which scripts/kube.sh has started.
type server struct {
	t      *testing.T
	client *http.Client
	token  string
}

func connect(t *testing.T) *server {
	t.Helper()
	ca, err := os.ReadFile(os.Getenv("KUBE_CA"))
	require.NoError(t, err, "run make kube, which starts the API server")
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	return &server{t: t, token: os.Getenv("KUBE_TOKEN"), client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}}
}

// call sends a request and returns the status and the body of the response.
func (s *server) call(method, path string, body []byte) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "https://127.0.0.1:"+os.Getenv("KUBE_PORT")+path, bytes.NewReader(body))
	require.NoError(s.t, err)
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/yaml")
	if bytes.HasPrefix(body, []byte("{")) {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.client.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, string(text)
}

// create creates an object. With dry, the API server only checks it.
func (s *server) create(doc string, dry bool) (int, string) {
	s.t.Helper()
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	require.NoError(s.t, yaml.Unmarshal([]byte(doc), &head))
	path := "/apis/" + head.APIVersion
	if !strings.Contains(head.APIVersion, "/") {
		path = "/api/" + head.APIVersion
	}
	if head.Metadata.Namespace != "" {
		path += "/namespaces/" + head.Metadata.Namespace
	}
	plural := strings.ToLower(head.Kind)
	if stem, ok := strings.CutSuffix(plural, "y"); ok {
		plural = stem + "ies"
	} else if strings.HasSuffix(plural, "s") {
		plural += "es"
	} else {
		plural += "s"
	}
	path += "/" + plural + "?fieldValidation=Strict"
	if dry {
		path += "&dryRun=All"
	}
	return s.call(http.MethodPost, path, []byte(doc))
}

// served reports whether the API server has the kind of an object; it has no CRDs of the Prometheus operator.
func served(doc string) bool { return !strings.Contains(doc, "apiVersion: monitoring.coreos.com") }

func (s *server) prepare() {
	s.t.Helper()
	status, body := s.create("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: "+namespace+"\n  labels: {pod-security.kubernetes.io/enforce: restricted}\n", false)
	require.Contains(s.t, []int{http.StatusCreated, http.StatusConflict}, status, body)
	dir, err := exec.CommandContext(s.t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	require.NoError(s.t, err)
	crd, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml"))
	require.NoError(s.t, err)
	status, body = s.create(string(crd), false)
	require.Contains(s.t, []int{http.StatusCreated, http.StatusConflict}, status, body)
	require.Eventually(s.t, func() bool {
		status, _ := s.call(http.MethodGet, "/apis/gateway.networking.k8s.io/v1/httproutes", nil)
		return status == http.StatusOK
	}, time.Minute, 100*time.Millisecond)
}

// Every object of every set, and every pod, passes the strict validation of a real API server.
func TestKubeAcceptsObjects(t *testing.T) {
	s := connect(t)
	s.prepare()
	for _, name := range sets(t) {
		docs, _, err := manifests(t, readSet(t, name))
		require.NoError(t, err)
		for _, doc := range docs {
			if !served(doc) {
				continue
			}
			status, body := s.create(doc, true)
			require.Equal(t, http.StatusCreated, status, "%s: %s%s", name, body, doc)
		}
	}
	// The accounts are created only now, because an object that exists could not be created again.
	for _, name := range sets(t) {
		for _, w := range workloads(render(t, readSet(t, name))) {
			s.account(w.pod.Spec.ServiceAccountName)
			s.acceptsPod(name, w)
		}
	}
}

// account creates a service account, without which the API server accepts no pod.
func (s *server) account(name string) {
	s.t.Helper()
	if name == "" {
		name = "default"
	}
	status, body := s.create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: "+name+", namespace: "+namespace+"}\n", false)
	require.Contains(s.t, []int{http.StatusCreated, http.StatusConflict}, status, body)
}

// acceptsPod requires that the API server accepts the pod of a workload, in a namespace that enforces restricted Pod
// Security.
func (s *server) acceptsPod(set string, w workload) {
	s.t.Helper()
	spec := w.pod.Spec.DeepCopy()
	for _, claim := range w.claims { // the controller of the StatefulSet would add these volumes
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim.Name})
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": map[string]any{"name": "pod", "namespace": namespace, "labels": w.pod.Labels},
	})
	require.NoError(s.t, err)
	status, body := s.create(string(raw), true)
	require.Equal(s.t, http.StatusCreated, status, "%s: pod of %s: %s", set, w.name, body)
}

// The program of the setup job creates the Secrets with the rights of its role, and no others.
func TestKubeSetup(t *testing.T) {
	s := connect(t)
	s.prepare()
	docs, _, err := manifests(t, readSet(t, "existing-database"))
	require.NoError(t, err)
	for _, doc := range docs {
		for _, kind := range []string{"ServiceAccount", "Role", "RoleBinding"} {
			if strings.Contains(doc, "\nkind: "+kind+"\n") {
				status, body := s.create(doc, false)
				require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status, body)
			}
		}
	}
	status, body := s.call(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/prod-signalbox-setup/token",
		[]byte(`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}`))
	require.Equal(t, http.StatusCreated, status, body)
	var made struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	account := t.TempDir()
	ca, err := os.ReadFile(os.Getenv("KUBE_CA"))
	require.NoError(t, err)
	for name, content := range map[string]string{"token": made.Status.Token, "namespace": namespace, "ca.crt": string(ca)} {
		require.NoError(t, os.WriteFile(filepath.Join(account, name), []byte(content), 0o600))
	}
	for run := range 2 {
		command := exec.CommandContext(t.Context(), os.Getenv("KUBE_SETUP"), "kubernetes", "--secrets", "prod-signalbox", "--keys", "--certs",
			"--account", account, "--dir", filepath.Join(t.TempDir(), "work"))
		command.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT="+os.Getenv("KUBE_PORT"))
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, 8*(1-run), strings.Count(string(out), "created the Secret"), "%s", out)
	}
	own := &server{t: t, client: s.client, token: made.Status.Token}
	status, _ = own.call(http.MethodGet, "/api/v1/namespaces/"+namespace+"/secrets/prod-signalbox-keys", nil)
	require.Equal(t, http.StatusOK, status)
	for _, path := range []string{"secrets", "secrets/another", "pods", "configmaps"} {
		status, _ = own.call(http.MethodGet, fmt.Sprintf("/api/v1/namespaces/%s/%s", namespace, path), nil)
		require.Equal(t, http.StatusForbidden, status, path)
	}
}
