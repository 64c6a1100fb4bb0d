package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

func TestSharedLinkMasksCredentials(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	w.ingest.params = `{"api_key": "sk-1", "note": "uses sk-abcdefgh12345678", "max_tokens": 4096, "optim.lr": 1.0}`
	w.ingest.answer = `[{"role": "assistant", "content": "my key is sk-abcdefgh12345678, <b>ok</b>"}]`
	j := w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Name = "with hf_abcdefghij0123456789" })
	for _, pinned := range []bool{false, true} {
		s := w.shareOf([]string{j.GetId()}, all, func(r *jobsv1.CreateShareRequest) { r.Pinned = pinned })
		shared, err := w.shared().GetShared(w.as(nobody()), &jobsv1.GetSharedRequest{Token: s.GetToken()})
		require.NoError(t, err)
		require.Equal(t, "with ***", shared.GetRuns()[0].GetName())
		config, err := w.shared().GetSharedConfig(w.as(nobody()), &jobsv1.GetSharedConfigRequest{Token: s.GetToken()})
		require.NoError(t, err)
		require.Equal(t, `{"api_key":"***","max_tokens":4096,"note":"***","optim.lr":1.0}`, string(config.GetHparams()), "pinned: %v", pinned)
		samples, err := w.shared().ListSharedSamples(w.as(nobody()), &jobsv1.ListSharedSamplesRequest{Token: s.GetToken()})
		require.NoError(t, err)
		require.Equal(t, `[{"content":"my key is ***, <b>ok</b>","role":"assistant"}]`, string(samples.GetSamples()[0].GetAssistant()))
		require.Equal(t, `"shown question"`, string(samples.GetSamples()[0].GetUser()))
	}
}
