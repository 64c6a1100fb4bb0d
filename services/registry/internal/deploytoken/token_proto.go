package deploytoken

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// ToProto converts a token for the API, without its secret.
func ToProto(t *Token) *registryv1.DeploymentToken {
	return &registryv1.DeploymentToken{
		Id: t.ID, DeploymentId: t.DeploymentID, Name: t.Name, Prefix: t.Prefix,
		CreatedAt: timestamppb.New(t.CreatedAt), RevokedAt: request.OptionalTime(t.RevokedAt),
	}
}
