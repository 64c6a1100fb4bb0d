// Package blobtest is the contract of blob.Store as a suite of tests. Every driver
// runs it against the real thing: a folder, a running S3 server.
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

// Fixture is an empty store with its signed URLs being served.
type Fixture struct {
	Store blob.Store
	Limit int64 // bytes of the largest object
	// FirstCounts says that the server behind overlooks the second of two query
	// parameters of one name, as some S3 servers do. It may then accept a request
	// to which one was added behind the signed ones, but not see it.
	FirstCounts bool
}

// Run holds a driver to the contract. newStore is called once for each test.
func Run(t *testing.T, newStore func(t *testing.T) Fixture) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Fixture){
		"put and get":               putAndGet,
		"put refuses wrong bytes":   putRefusesWrongBytes,
		"put refuses broken reader": putRefusesBrokenReader,
		"write once":                writeOnce,
		"racing puts":               racingPuts,
		"keys":                      keys,
		"delete":                    deletes,
		"list":                      list,
		"signed put":                signedPut,
		"signed put is bound":       signedPutIsBound,
		"signed get":                signedGet,
		"signed get is bound":       signedGetIsBound,
		"signing refuses":           signingRefuses,
		"signatures expire":         signaturesExpire,
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

func put(t *testing.T, f Fixture, key string, body []byte) {
	t.Helper()
	require.NoError(t, f.Store.Put(t.Context(), key, bytes.NewReader(body), int64(len(body)), digest(body)))
}

func requireAbsent(t *testing.T, f Fixture, key string) {
	t.Helper()
	_, err := f.Store.Stat(t.Context(), key)
	require.True(t, fault.Is(err, fault.Absent), "%s: %v", key, err)
	require.True(t, fault.HasCode(err, blob.CodeAbsent))
	_, _, err = f.Store.Get(t.Context(), key)
	require.True(t, fault.Is(err, fault.Absent), "%s: %v", key, err)
}

func requireContent(t *testing.T, f Fixture, key string, want []byte) {
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

// send makes the request and answers the status and the body.
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
	// A connection of its own: a refused upload may end the connection.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err != nil {
		// A server that refuses without reading a body may cut it off.
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		return 0, nil, nil
	}
	defer func() { require.NoError(t, answer.Body.Close()) }()
	got, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, answer.Header, got
}
