// Package blobtest is the test suite for implementations of blob.Store. Each implementation runs the suite
// with a real backend: a folder or an S3 server.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Harness is an empty store together with a server for its signed URLs.
type Harness struct {
	Store blob.Store
	Limit int64 // maximum object size in bytes
	// FirstCounts is true if the server ignores the second of two query parameters with the same name, as some
	// S3 servers do. A request with a duplicate after the signed parameters may then succeed.
	FirstCounts bool
}

// Run runs the suite. It calls newStore once for each test.
func Run(t *testing.T, newStore func(t *testing.T) Harness) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Harness){
		"put and get":                   putAndGet,
		"put refuses wrong bytes":       putRefusesWrongBytes,
		"put refuses broken reader":     putRefusesBrokenReader,
		"write once":                    writeOnce,
		"racing puts":                   racingPuts,
		"keys":                          keys,
		"open known object":             openKnown,
		"delete":                        deletes,
		"list":                          list,
		"signed put":                    signedPut,
		"signed put cannot be altered":  signedPutIsBound,
		"signed get":                    signedGet,
		"signed get of known object":    signedGetOfKnownObject,
		"signed get cannot be altered":  signedGetIsBound,
		"signing rejects invalid input": signingRefuses,
		"signatures expire":             signaturesExpire,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newStore(t))
		})
	}
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func pattern(n int) []byte {
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(i*7 + i>>8)
	}
	return body
}

func put(t *testing.T, f Harness, key string, body []byte) {
	t.Helper()
	require.NoError(t, f.Store.Put(t.Context(), key, bytes.NewReader(body), int64(len(body)), digest(body)))
}

func requireAbsent(t *testing.T, f Harness, key string) {
	t.Helper()
	_, err := f.Store.Stat(t.Context(), key)
	require.True(t, fault.Is(err, fault.Absent), "%s: %v", key, err)
	require.True(t, fault.HasCode(err, blob.CodeAbsent))
	_, _, err = f.Store.Get(t.Context(), key)
	require.True(t, fault.Is(err, fault.Absent), "%s: %v", key, err)
}

func requireContent(t *testing.T, f Harness, key string, want []byte) {
	t.Helper()
	body, info, err := f.Store.Get(t.Context(), key)
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	require.True(t, bytes.Equal(want, got))
	require.Equal(t, blob.Info{Key: key, Size: int64(len(want)), SHA256: digest(want), Modified: info.Modified}, info)
	require.False(t, info.Modified.IsZero())
	stat, err := f.Store.Stat(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, info, stat)
}

// edit changes a signed request before it is sent.
type edit func(*http.Request)

// send sends the request and returns the status, the header and the body of the response. It returns status
// 0 if the server closed the connection without a response.
func send(t *testing.T, signed blob.Signed, body []byte, edits ...edit) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), signed.Method, signed.URL, nil)
	require.NoError(t, err)
	for name, value := range signed.Headers {
		req.Header.Set(name, value)
	}
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if len(body) == 0 {
			req.Body = http.NoBody
		}
	}
	for _, e := range edits {
		e(req)
	}
	// Use a new connection, because the server may close a connection after it has rejected an upload.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		// A server may reject the request by closing the connection before it has read the body.
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		return 0, nil, nil
	}
	defer func() { require.NoError(t, resp.Body.Close()) }()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, got
}
