package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// Error codes of rejected calls.
const (
	// CodePeerRefused is the code for a call from a service that may not call the method.
	CodePeerRefused = "peer_refused"
	// CodeAdminRequired is the code for a call of a user without the admin role.
	CodeAdminRequired = "admin_required"
	// CodePasswordChange is the code for a call of a user who must first change a temporary password.
	CodePasswordChange = "password_change_required"
)

const healthService = "grpc.health.v1.Health"

// edge is the service name of the gateway, which forwards the calls of users, runs and deployments. A caller token is
// valid for a minute and not bound to a service, so a service that receives one could call methods as that caller.
// Methods for callers therefore accept calls only from the gateway.
const edge = "gateway"

func isHealth(fullMethod string) bool { return strings.HasPrefix(fullMethod, "/"+healthService+"/") }

// rule is the parsed access option of a method.
type rule struct {
	credential authn.Kind // empty for methods between services
	admin      bool
	peers      map[string]bool
	open       bool // any service may call the method; only for health checks
	need       authn.Need
	drawn      bool // the method may be called with a temporary password
}

// rulesOf reads the access option of every registered method. The error reports all invalid methods.
func rulesOf(services map[string]grpc.ServiceInfo) (map[string]rule, error) {
	rules := map[string]rule{}
	var faults []error
	for name, info := range services {
		for _, m := range info.Methods {
			full := "/" + name + "/" + m.Name
			r, err := ruleOf(name, m.Name)
			if err != nil {
				faults = append(faults, fmt.Errorf("method %s: %w", full, err))
			}
			rules[full] = r
		}
	}
	return rules, errors.Join(faults...)
}

func ruleOf(service, method string) (rule, error) {
	if service == healthService {
		return rule{open: true}, nil
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return rule{}, errors.New("has no descriptor")
	}
	sd, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return rule{}, errors.New("does not belong to a service")
	}
	md := sd.Methods().ByName(protoreflect.Name(method))
	if md == nil {
		return rule{}, errors.New("is missing in the descriptor of its service")
	}
	if !proto.HasExtension(md.Options(), optionsv1.E_Access) {
		return rule{}, errors.New("has no access option")
	}
	access, _ := proto.GetExtension(md.Options(), optionsv1.E_Access).(*optionsv1.Access)
	return ruleFrom(access)
}

func ruleFrom(a *optionsv1.Access) (rule, error) {
	hasCredential := a.GetCredential() != optionsv1.Credential_CREDENTIAL_UNSPECIFIED
	switch {
	case hasCredential && len(a.GetPeers()) > 0:
		return rule{}, errors.New("the access option has both a credential and peers")
	case !hasCredential && len(a.GetPeers()) == 0:
		return rule{}, errors.New("the access option has neither a credential nor peers")
	case a.GetRole() != optionsv1.Role_ROLE_UNSPECIFIED && a.GetCredential() != optionsv1.Credential_CREDENTIAL_USER:
		return rule{}, errors.New("the access option has a role, but the credential is not a user")
	case a.GetDrawnPassword() && a.GetCredential() != optionsv1.Credential_CREDENTIAL_USER:
		return rule{}, errors.New("the access option sets drawn_password, but the credential is not a user")
	}
	need, err := needOf(a)
	if err != nil {
		return rule{}, err
	}
	r := rule{peers: map[string]bool{}, need: need, drawn: a.GetDrawnPassword()}
	for _, p := range a.GetPeers() {
		if _, err := pki.ServiceName(p); err != nil || r.peers[p] {
			return rule{}, fmt.Errorf("the access option has the peer %q, which is not a valid service name or is listed twice", p)
		}
		r.peers[p] = true
	}
	switch a.GetRole() {
	case optionsv1.Role_ROLE_UNSPECIFIED, optionsv1.Role_ROLE_OPERATOR:
	case optionsv1.Role_ROLE_ADMIN:
		r.admin = true
	default:
		return rule{}, errors.New("the access option has an unknown role")
	}
	if !hasCredential {
		return r, nil
	}
	var known bool
	if r.credential, known = kindOf(a.GetCredential()); !known {
		return rule{}, errors.New("the access option has an unknown credential")
	}
	return r, nil
}

// needOf returns the right on objects that the method requires. The option must declare it if users call the method,
// and must not declare it otherwise.
func needOf(a *optionsv1.Access) (authn.Need, error) {
	user := a.GetCredential() == optionsv1.Credential_CREDENTIAL_USER
	needs := map[optionsv1.Need]authn.Need{
		optionsv1.Need_NEED_NONE: authn.NeedNone, optionsv1.Need_NEED_READ: authn.NeedRead,
		optionsv1.Need_NEED_EDIT: authn.NeedEdit, optionsv1.Need_NEED_MANAGE: authn.NeedManage,
	}
	need, known := needs[a.GetNeed()]
	switch given := a.GetNeed() != optionsv1.Need_NEED_UNSPECIFIED; {
	case user && !given:
		return 0, errors.New("the access option must have a need, because the credential is a user")
	case given && !user:
		return 0, errors.New("the access option has a need, but the credential is not a user")
	case given && !known:
		return 0, errors.New("the access option has an unknown need")
	default:
		return need, nil
	}
}

func kindOf(c optionsv1.Credential) (authn.Kind, bool) {
	switch c {
	case optionsv1.Credential_CREDENTIAL_NONE:
		return authn.KindNone, true
	case optionsv1.Credential_CREDENTIAL_USER:
		return authn.KindUser, true
	case optionsv1.Credential_CREDENTIAL_INGEST:
		return authn.KindIngest, true
	case optionsv1.Credential_CREDENTIAL_DEPLOYMENT:
		return authn.KindDeployment, true
	case optionsv1.Credential_CREDENTIAL_AGENT:
		return authn.KindAgent, true
	case optionsv1.Credential_CREDENTIAL_UNSPECIFIED:
		return "", false
	default:
		return "", false
	}
}

// admit checks whether the call is allowed and returns a context with the caller.
func (s *Server) admit(ctx context.Context, method string) (context.Context, error) {
	from := linkOf(ctx)
	r, known := s.rules[method]
	switch {
	case from == nil || !known:
		return ctx, fault.New(fault.Forbidden, CodePeerRefused, "this method may not be called: it has no access rule, or the caller has no identity")
	case from.agents != (r.credential == authn.KindAgent):
		return ctx, fault.New(fault.Forbidden, CodePeerRefused, "this listener does not serve the method")
	case from.agents:
		id, _ := pki.NodeID(from.name)
		return authn.NewContext(ctx, &authn.Caller{Kind: authn.KindAgent, Subject: id}), nil
	case r.open:
		return ctx, nil
	case len(r.peers) > 0 && !r.peers[from.name], len(r.peers) == 0 && from.name != edge:
		return ctx, fault.New(fault.Forbidden, CodePeerRefused, "service %s may not call this method", from.name)
	}
	ctx, caller, err := s.caller(ctx)
	if err != nil {
		return ctx, err
	}
	if len(r.peers) > 0 {
		if caller == nil {
			return authn.NewContext(ctx, &authn.Caller{Kind: authn.KindService, Subject: from.name}), nil
		}
		return ctx, nil
	}
	return authn.WithArchived(authn.WithNeed(ctx, r.need), s.options.Archived), r.judge(caller)
}

// caller verifies the token of the call and returns its caller, or nil if the call has no token.
func (s *Server) caller(ctx context.Context) (context.Context, *authn.Caller, error) {
	values := metadata.ValueFromIncomingContext(ctx, authn.MetadataCaller)
	switch {
	case len(values) == 0:
		return ctx, nil, nil
	case len(values) > 1:
		return ctx, nil, fault.New(fault.Unauthenticated, authn.CodeTokenInvalid, "Could not validate credentials")
	case s.options.Verifier == nil:
		return ctx, nil, fault.New(fault.Internal, "", "this server has no verifier for callers")
	}
	caller, expires, err := s.options.Verifier.Verify(ctx, values[0])
	if err != nil {
		return ctx, nil, err
	}
	if caller, err = caller.WithAllRoles(ctx, s.options.Roles); err != nil {
		return ctx, nil, err
	}
	return authn.WithToken(authn.NewContext(ctx, caller), values[0], expires), caller, nil
}

// judge checks the caller against the rule. It returns a 401 error for a missing caller and for a caller of the wrong
// kind, and a 403 error for a caller of the right kind without the necessary rights.
func (r rule) judge(caller *authn.Caller) error {
	switch {
	case caller == nil:
		return fault.New(fault.Unauthenticated, "", "Not authenticated")
	case r.credential == authn.KindNone:
		return nil
	case caller.Kind != r.credential:
		return fault.New(fault.Unauthenticated, "", "Not authenticated")
	case caller.PasswordDrawn && !r.drawn:
		return fault.New(fault.Forbidden, CodePasswordChange, "your password is temporary; change it first with POST /api/profile/password")
	case r.admin && !caller.IsAdmin():
		return fault.New(fault.Forbidden, CodeAdminRequired, "this needs the admin role")
	default:
		return nil
	}
}
