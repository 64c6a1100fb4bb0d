package auth

import (
	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/services/auth/internal/trail"
)

// registerTrail puts the merged audit on a server: auth's own part without a hop, the others' by their peers.
func (s *Service) registerTrail(r grpc.ServiceRegistrar) {
	t := &trail.Trail{Names: append([]string{Name}, PeerNames()...), Sources: map[string]trail.Source{
		Name: trail.Peer{Client: s.deps.Audit.Client()},
	}}
	for _, name := range PeerNames() {
		t.Sources[name] = trail.Peer{Client: commonpeerv1.NewAuditPeerServiceClient(s.deps.Peers[name])}
	}
	authv1.RegisterAuditServiceServer(r, &trail.Server{Trail: t})
}
