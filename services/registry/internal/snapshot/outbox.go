package snapshot

import (
	"google.golang.org/protobuf/proto"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deploytoken"
)

// partSize is the size in bytes above which a part is sent. A part exceeds this size by at most one row.
const partSize = rpc.MaxMessage / 8

// outbox collects rows and sends them in parts of bounded size. The last part remains in rest.
type outbox struct {
	send func(*registrypeerv1.Snapshot) error
	rest *registrypeerv1.Snapshot
	size int
}

// begin discards what has not been sent and begins a complete state.
func (o *outbox) begin() { o.rest, o.size = &registrypeerv1.Snapshot{}, 0 }

// proceed discards what has not been sent and begins with changes to the state that was sent before.
func (o *outbox) proceed() { o.rest, o.size = &registrypeerv1.Snapshot{Continued: true}, 0 }

func (o *outbox) deployment(d *registrypeerv1.ServedDeployment) error {
	o.rest.Deployments = append(o.rest.Deployments, d)
	return o.grow(proto.Size(d))
}

func (o *outbox) deleted(deploymentID string) error {
	o.rest.DeletedDeploymentIds = append(o.rest.DeletedDeploymentIds, deploymentID)
	return o.grow(len(deploymentID))
}

// token adds a token, or the revocation of a token that is revoked.
func (o *outbox) token(t *deploytoken.Token) error {
	if t.RevokedAt != nil {
		o.rest.RevokedHashes = append(o.rest.RevokedHashes, t.Hash)
		return o.grow(len(t.Hash))
	}
	out := &registrypeerv1.ServedToken{Id: t.ID, Name: t.Name, Hash: t.Hash, DeploymentId: t.DeploymentID}
	o.rest.Tokens = append(o.rest.Tokens, out)
	return o.grow(proto.Size(out))
}

// rowOverhead is the maximum number of bytes that the tag and the length of a row need in a message.
const rowOverhead = 8

func (o *outbox) grow(size int) error {
	if o.size += size + rowOverhead; o.size < partSize {
		return nil
	}
	o.rest.More = true
	err := o.send(o.rest)
	o.proceed()
	return err
}
