package snapshot

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// A replica of the previous version would treat the first part of the state as the complete state and refuse valid
// tokens.
func TestServer_Watch_refusesOlderReplica(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.connect()
	r.up <- &registrypeerv1.WatchRequest{ReplicaId: r.id, Renewal: 1}
	err := <-r.ended
	require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "replica_outdated"), "%v", err)
	require.ErrorContains(t, err, "this replica of inference is older than the registry")
	require.ErrorContains(t, err, "upgrade inference")
}

// replacer records the reported engines. It implements EngineReplacer.
type replacer struct {
	got deployment.Hung
	err error
}

func (r *replacer) ReplaceEngine(_ context.Context, hung deployment.Hung) (bool, error) {
	r.got = hung
	return r.err == nil, r.err
}

func TestServer_ReplaceEngine_passesReport(t *testing.T) {
	t.Parallel()
	r := &replacer{}
	s := &Server{Changer: r}
	in := &registrypeerv1.ReplaceEngineRequest{RevisionId: "rev_1", ReplicaId: "rep_1", Address: "http://a:1", Silent: durationpb.New(time.Minute)}
	out, err := s.ReplaceEngine(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.GetReplaced())
	require.Equal(t, deployment.Hung{RevisionID: "rev_1", ReplicaID: "rep_1", Address: "http://a:1", Silent: time.Minute}, r.got)
	r.err = errors.New("the database is down")
	_, err = s.ReplaceEngine(t.Context(), in)
	require.ErrorIs(t, err, r.err)
}

func TestRevisionToProto_probe(t *testing.T) {
	t.Parallel()
	out := revisionToProto(&revision.Revision{Plan: revision.Plan{Task: "embedding", ServedNames: []string{"mine", "other"}}})
	require.Equal(t, []string{"embedding", "mine"}, []string{out.GetTask(), out.GetModel()})
	require.Empty(t, revisionToProto(&revision.Revision{}).GetModel(), "the model must be empty without served names, because the engine then serves the default name")
}
