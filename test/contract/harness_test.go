package contract

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// harness holds the objects of one installation that goldens share. An objectGroup creates some of these objects when
// a golden first uses one of the group's variables. A golden must not change shared objects; it creates the objects
// that it changes.
type harness struct {
	*testenv.Installation

	t      *testing.T // the test of the installation
	groups []*objectGroup

	mu   sync.Mutex
	vars map[string]string
	// from is the number of client addresses returned so far.
	from atomic.Int64
}

// objectGroup builds some objects and sets variables for them.
type objectGroup struct {
	// vars are the names of the variables that build sets.
	vars  []string
	build func(b *builder)
	// own marks a group that is built separately for each golden that uses it.
	own bool

	once sync.Once
}

// objectGroups returns all groups of objects.
func objectGroups() []*objectGroup {
	return []*objectGroup{
		{vars: []string{"admin", "admin_password"}, build: (*builder).addAdmin},
		{vars: []string{"operator", "viewer", "stranger", "project", "project_id", "team", "team_id"}, build: (*builder).addPeople},
		{vars: []string{"newcomer"}, build: (*builder).addNewcomer},
		{vars: []string{"recipe_version", "recipe_lock"}, build: (*builder).addRecipe},
		{vars: []string{"job", "run", "artifact", "ended_ingest"}, build: (*builder).addFinished},
		{vars: []string{"live_job", "live_run", "ingest"}, build: (*builder).addLive},
		{vars: []string{"broken_run", "broken_ingest", "broken_object", "broken_artifact"}, build: (*builder).addBroken},
		{vars: []string{"own_job", "own_run", "own_ingest", "own_work", "own_lease"}, build: (*builder).addOwn, own: true},
		{vars: []string{"sealed_job", "sealed_run", "sealed_ingest"}, build: (*builder).addSealed},
		{vars: []string{"leaker_lock"}, build: (*builder).addLeaker},
		{vars: []string{"dataset", "dataset_version"}, build: (*builder).addDataset},
		{vars: []string{"train_ref", "held_ref", "protected_ref"}, build: (*builder).addSplits},
		{vars: []string{"broken_dataset", "broken_file", "broken_link", "broken_target"}, build: (*builder).addBrokenDataset},
		{vars: []string{"broken_environment", "broken_taskset"}, build: (*builder).addBrokenEnvironment},
		{vars: []string{"broken_package"}, build: (*builder).addBrokenPackage},
		{vars: []string{"taskset_ref", "taskset_digest"}, build: (*builder).addEnvironment},
		{vars: []string{"rubric_ref", "rubric_digest"}, build: (*builder).addRubric},
		{vars: []string{"model_ref"}, build: (*builder).addModelRef},
		{vars: []string{"model", "model_version"}, build: (*builder).addModel},
		{vars: []string{"deployment", "revision", "deployment_token"}, build: (*builder).addDeployment},
		{vars: []string{"own_deployment", "own_token", "own_token_id"}, build: (*builder).addOwnDeployment, own: true},
		{vars: []string{"second_revision"}, build: (*builder).addSecond, own: true},
		{vars: []string{"session"}, build: (*builder).addSession},
		{vars: []string{"own_model"}, build: (*builder).addOwnModel, own: true},
		{vars: []string{"fleet", "node"}, build: (*builder).addFleet},
		{vars: []string{"llm"}, build: (*builder).addModelServer},
		{vars: []string{"certificate_request"}, build: (*builder).addCertificateRequest},
		{vars: []string{"ghost_node", "ghost_pool"}, build: (*builder).addGhost, own: true},
		{vars: []string{"stuck_instance"}, build: (*builder).addStuckInstance, own: true},
		{vars: []string{"program"}, build: (*builder).addProgram},
		{vars: []string{"provided"}, build: (*builder).addProvided},
		{vars: []string{"joiner"}, build: (*builder).addJoiner, own: true},
		{vars: []string{"gone_link"}, build: (*builder).addGoneLink},
		{vars: []string{"sign_in_link"}, build: (*builder).addSignInLink, own: true},
	}
}

// builder builds one group of objects for a golden. Its failures fail that golden. Its cleanups and its context belong
// to the test of the installation.
type builder struct {
	testing.TB

	*harness

	set func(name, value string)
	get func(name string) (string, error)
	// own states that the objects belong to one golden. Their jobs are stopped when it ends.
	own bool
}

// Cleanup registers a function that is called when the test of the installation ends.
func (b *builder) Cleanup(f func()) { b.t.Cleanup(f) }

// Context returns a context that is canceled when the test of the installation ends.
func (b *builder) Context() context.Context { return b.t.Context() }

// at returns the value of a variable. If necessary, it builds the object group of that variable.
func (b *builder) at(name string) string {
	b.Helper()
	v, err := b.get(name)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return v
}

var errNotBuilt = errors.New("the object for this variable was not created")

// variables returns a function that looks up variables for one golden.
func (w *harness) variables(t testing.TB) func(name string) (string, error) {
	t.Helper()
	own := map[string]string{}
	var get func(name string) (string, error)
	get = func(name string) (string, error) {
		i := slices.IndexFunc(w.groups, func(p *objectGroup) bool { return slices.Contains(p.vars, name) })
		if i < 0 {
			return "", fmt.Errorf("unknown variable %s", name)
		}
		p := w.groups[i]
		if p.own {
			if _, there := own[name]; !there {
				p.build(&builder{TB: t, harness: w, get: get, set: func(n, v string) { own[n] = v }, own: true})
			}
			return found(own, name)
		}
		p.once.Do(func() { p.build(&builder{TB: t, harness: w, get: get, set: w.set}) })
		w.mu.Lock()
		defer w.mu.Unlock()
		return found(w.vars, name)
	}
	return get
}

func found(vars map[string]string, name string) (string, error) {
	v, ok := vars[name]
	if !ok {
		return "", errNotBuilt
	}
	return v, nil
}

func (w *harness) set(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.vars[name] = value
}

// address returns a new client address. Rate limits count requests by address.
func (w *harness) address() string {
	n := w.from.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", 10+n/62500, 1+n/250%250, 1+n%250)
}

// caller returns a client with a new address and without a credential.
func (w *harness) caller() *client.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(w.address())}}
	return client.New(w.URL, &http.Transport{DialContext: dialer.DialContext})
}

func newHarness(t *testing.T, s *testenv.Installation) *harness {
	t.Helper()
	return &harness{Installation: s, t: t, groups: objectGroups(), vars: map[string]string{}}
}
