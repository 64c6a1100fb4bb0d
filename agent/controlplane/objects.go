package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// errNoLine is returned before the first connection.
var errNoLine = errors.New("the agent is not connected to the control plane")

// Download implements executor.Downloader. Each call uses a newly signed URL.
func (l *Link) Download(ctx context.Context, key executor.Key, object executor.ObjectRef) (io.ReadCloser, error) {
	client := l.client()
	if client == nil {
		return nil, errNoLine
	}
	signed, err := client.SignDownload(ctx, &jobsv1.SignDownloadRequest{
		WorkId: key.WorkID, Generation: key.Generation, Fence: key.Fence, Uri: object.URI,
	})
	if err != nil {
		return nil, classified("sign the download", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, signed.GetUrl(), nil)
	if err != nil {
		return nil, errors.New("the signed URL is not valid")
	}
	resp, err := l.deps.HTTP.Do(req)
	if err != nil {
		// The error of net/http contains the URL, and the URL contains the signature.
		return nil, fmt.Errorf("download the object: %w", withoutURL(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	_ = resp.Body.Close()
	err = fmt.Errorf("download the object: the object store responded with status %d", resp.StatusCode)
	if resp.StatusCode == http.StatusNotFound {
		err = errors.Join(executor.ErrPermanent, err)
	}
	return nil, err
}

// MintIngestToken implements executor.TokenMinter.
func (l *Link) MintIngestToken(ctx context.Context, key executor.Key) (executor.Token, error) {
	client := l.client()
	if client == nil {
		return executor.Token{}, errNoLine
	}
	token, err := client.MintIngestToken(ctx, &jobsv1.MintIngestTokenRequest{
		WorkId: key.WorkID, Generation: key.Generation, Fence: key.Fence,
	})
	if err != nil {
		return executor.Token{}, classified("mint the ingest token", err)
	}
	return executor.Token{Secret: secret.New(token.GetToken()), ExpiresAt: token.GetExpiresAt().AsTime()}, nil
}

func classified(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if permanent(err) {
		return errors.Join(executor.ErrPermanent, err)
	}
	return err
}

func withoutURL(err error) error {
	var u interface{ Unwrap() error }
	if errors.As(err, &u) && u.Unwrap() != nil {
		return u.Unwrap()
	}
	return errors.New("the request failed")
}
