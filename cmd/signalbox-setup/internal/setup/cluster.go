package setup

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	clusterTimeout = 30 * time.Second
	// maxResponse exceeds the size of a Secret, which Kubernetes limits to 1 MiB, in base64.
	maxResponse = 2 << 20
)

// errNoSecret is the error if a Secret does not exist.
var errNoSecret = errors.New("the Secret does not exist")

// cluster calls the API server of Kubernetes with the account of the pod. It uses only Secrets of the pod's namespace.
type cluster struct {
	base, namespace, token string
	client                 *http.Client
}

// clusterSecret is a Secret, as far as setup uses it.
type clusterSecret struct {
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Type       string            `json:"type,omitempty"`
	Metadata   clusterMetadata   `json:"metadata"`
	Data       map[string][]byte `json:"data"`
}

type clusterMetadata struct {
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// ResourceVersion identifies the state that was read. A change of another state fails.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// openCluster reads the account of the pod: its token, its namespace and the CA of the API server.
func openCluster(account string, getenv func(string) string) (*cluster, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; the command kubernetes runs only in a pod")
	}
	var text [3]string
	for n, name := range []string{"token", "namespace", "ca.crt"} {
		raw, err := os.ReadFile(filepath.Join(account, name))
		if err != nil {
			return nil, fmt.Errorf("read the account of the pod: %w", err)
		}
		text[n] = strings.TrimSpace(string(raw))
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(text[2])) {
		return nil, fmt.Errorf("%s contains no certificate", filepath.Join(account, "ca.crt"))
	}
	return &cluster{
		base: "https://" + net.JoinHostPort(host, port), token: text[0], namespace: text[1],
		client: &http.Client{
			Timeout: clusterTimeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// get reads a Secret. The error wraps errNoSecret if it does not exist.
func (c *cluster) get(ctx context.Context, name string) (*clusterSecret, error) {
	s := &clusterSecret{}
	if err := c.call(ctx, http.MethodGet, "/"+url.PathEscape(name), nil, s); err != nil {
		return nil, fmt.Errorf("read the Secret %s: %w", name, err)
	}
	return s, nil
}

// create creates a Secret. It fails if the Secret exists.
func (c *cluster) create(ctx context.Context, name, typ string, data map[string][]byte) error {
	s := clusterSecret{
		APIVersion: "v1", Kind: "Secret", Type: typ, Data: data,
		Metadata: clusterMetadata{Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "signalbox-setup", "app.kubernetes.io/part-of": "signalbox"}},
	}
	if err := c.call(ctx, http.MethodPost, "", s, nil); err != nil {
		return fmt.Errorf("create the Secret %s: %w", name, err)
	}
	return nil
}

// replace replaces values of a Secret that was read before. It fails if the Secret has changed since.
func (c *cluster) replace(ctx context.Context, name string, read *clusterSecret, data map[string][]byte) error {
	change := clusterSecret{Metadata: clusterMetadata{ResourceVersion: read.Metadata.ResourceVersion}, Data: data}
	if err := c.call(ctx, http.MethodPatch, "/"+url.PathEscape(name), change, nil); err != nil {
		return fmt.Errorf("change the Secret %s: %w", name, err)
	}
	return nil
}

// call sends a request and decodes the response into result, unless it is nil.
func (c *cluster) call(ctx context.Context, method, path string, body, result any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	address := c.base + "/api/v1/namespaces/" + url.PathEscape(c.namespace) + "/secrets" + path
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusNotFound && method == http.MethodGet:
		return errNoSecret
	case response.StatusCode >= http.StatusMultipleChoices:
		return refusal(response.StatusCode, read)
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(read, result); err != nil {
		return fmt.Errorf("decode the response of the API server: %w", err)
	}
	return nil
}

// refusal returns the error for a status. It contains the message of the API server, which never contains values of a
// Secret.
func refusal(status int, body []byte) error {
	var reason struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &reason) != nil || reason.Message == "" {
		return fmt.Errorf("the API server responded with status %d", status)
	}
	return fmt.Errorf("the API server responded with status %d: %s", status, reason.Message)
}
