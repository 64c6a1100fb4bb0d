package deploytoken

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
)

// ToProto returns the API form of a token, without its secret.
func ToProto(t *Token) *registryv1.DeploymentToken {
	return &registryv1.DeploymentToken{
		Id: t.ID, DeploymentId: t.DeploymentID, Name: t.Name, Prefix: t.Prefix,
		CreatedAt: timestamppb.New(t.CreatedAt), RevokedAt: timeTo(t.RevokedAt),
	}
}

func timeTo(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
