package controlplane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// signPage is the maximum number of URIs in one signing request. The control plane accepts at least as many.
	signPage = 500
	// useWithin is how long the agent uses a signed URL, measured by this host's clock. The URL is valid for 15
	// minutes.
	useWithin = 10 * time.Minute
)

// batch holds the signed downloads of objects that were announced together.
type batch struct {
	key  executor.Key
	uris []string
	at   map[string]int // the first position of each URI in uris

	turn   sync.Mutex // held while a page of URIs is signed
	signed map[string]signedURL
	used   map[string]bool
}

type signedURL struct {
	url   string
	until time.Time
}

// Expect implements executor.Downloader.
func (l *Link) Expect(key executor.Key, objects []executor.ObjectRef) (done func()) {
	b := &batch{key: key, at: make(map[string]int, len(objects)), signed: map[string]signedURL{}, used: map[string]bool{}}
	for _, o := range objects {
		if _, known := b.at[o.URI]; !known {
			b.at[o.URI] = len(b.uris)
			b.uris = append(b.uris, o.URI)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.batches == nil {
		l.batches = map[*batch]struct{}{}
	}
	l.batches[b] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.batches, b)
	}
}

// batchOf returns the batch in which the object was announced, or nil.
func (l *Link) batchOf(key executor.Key, uri string) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for b := range l.batches {
		if _, ok := b.at[uri]; ok && b.key == key {
			return b
		}
	}
	return nil
}

// signed returns a URL for one download of the object. If the object was announced with Expect, a single call to the
// control plane signs the downloads of many announced objects.
func (l *Link) signed(ctx context.Context, key executor.Key, uri string) (string, error) {
	client := l.client()
	if client == nil {
		return "", errNoLine
	}
	if b := l.batchOf(key, uri); b != nil {
		url, err := b.take(ctx, client, uri, l.deps.Clock.Now)
		if !fault.Is(err, fault.Unconfigured) {
			return url, err
		}
		// A control plane of the previous version signs only one download per call.
	}
	signed, err := client.SignDownload(ctx, &jobsv1.SignDownloadRequest{
		WorkId: key.WorkID, Generation: key.Generation, Fence: key.Fence, Uri: uri,
	})
	if err != nil {
		return "", classified("sign the download", err)
	}
	return signed.GetUrl(), nil
}

// take returns a signed URL of an announced object. If the batch has no URL for this object, take requests URLs for it
// and for the objects after it in a single call.
func (b *batch) take(ctx context.Context, client jobsv1.AgentServiceClient, uri string, now func() time.Time) (string, error) {
	b.turn.Lock()
	defer b.turn.Unlock()
	b.used[uri] = true
	if s, ok := b.signed[uri]; ok && now().Before(s.until) {
		delete(b.signed, uri) // a retry needs a new URL
		return s.url, nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	page := b.page(uri, now())
	until := now().Add(useWithin)
	signed, err := client.SignDownloads(ctx, &jobsv1.SignDownloadsRequest{
		WorkId: b.key.WorkID, Generation: b.key.Generation, Fence: b.key.Fence, Uris: page,
	})
	if err != nil {
		return "", classified("sign the downloads", err)
	}
	if len(signed.GetDownloads()) != len(page) {
		return "", fmt.Errorf("sign the downloads: the control plane signed %d of %d downloads", len(signed.GetDownloads()), len(page))
	}
	for i, d := range signed.GetDownloads()[1:] {
		b.signed[page[i+1]] = signedURL{url: d.GetUrl(), until: until}
	}
	return signed.GetDownloads()[0].GetUrl(), nil
}

// page returns the given URI, followed by the later URIs of the batch that were not used yet and have no valid signed
// URL. It returns at most signPage URIs.
func (b *batch) page(uri string, now time.Time) []string {
	delete(b.signed, uri)
	page := []string{uri}
	for _, next := range b.uris[b.at[uri]+1:] {
		if len(page) == signPage {
			break
		}
		if s, ok := b.signed[next]; ok && now.Before(s.until) || b.used[next] {
			continue
		}
		page = append(page, next)
	}
	return page
}
