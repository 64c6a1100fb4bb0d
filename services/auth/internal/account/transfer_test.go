package account

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// fakeHolder is an in-memory service that counts how many objects of its kind each user owns.
type fakeHolder struct {
	commonpeerv1.OwnerPeerServiceClient // the methods that transfers do not call

	mu    sync.Mutex
	kind  string
	owns  map[string]int32
	named []string
	err   error
	// order records the kinds in the order of their transfers.
	order *[]string
}

func (h *fakeHolder) CountOwned(ctx context.Context, in *commonpeerv1.CountOwnedRequest, _ ...grpc.CallOption) (*commonpeerv1.OwnedCounts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, fault.New(fault.Internal, "", "no deadline")
	}
	return h.counts(h.owns[in.GetUserId()]), h.err
}

func (h *fakeHolder) TransferOwned(ctx context.Context, in *commonpeerv1.TransferOwnedRequest, _ ...grpc.CallOption) (*commonpeerv1.OwnedCounts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, bounded := ctx.Deadline(); !bounded || h.err != nil {
		return nil, h.err
	}
	n := h.owns[in.GetUserId()]
	h.owns[in.GetUserId()] = 0
	h.owns[in.GetToUserId()] += n
	h.named = append(h.named, in.GetToUsername())
	*h.order = append(*h.order, h.kind)
	return h.counts(n), nil
}

func (h *fakeHolder) counts(n int32) *commonpeerv1.OwnedCounts {
	return &commonpeerv1.OwnedCounts{Counts: []*commonpeerv1.OwnedCount{{Kind: h.kind, Count: n}}}
}

// transferHarness is a harness with two services and a disabled user, bob, who owns objects in each.
type transferHarness struct {
	*harness

	jobs, models *fakeHolder
	order        []string
	bob, eve     string
}

func newTransferHarness(t *testing.T) *transferHarness {
	t.Helper()
	h := &transferHarness{harness: newHarness(t)}
	h.add("root", admin)
	h.bob, h.eve = h.add("bob", operator), h.add("eve", operator)
	h.jobs = &fakeHolder{kind: "job", owns: map[string]int32{h.bob: 3, h.eve: 1}, order: &h.order}
	h.models = &fakeHolder{kind: "model", owns: map[string]int32{h.bob: 2}, order: &h.order}
	h.Transfers.Holders = []Holder{{"jobs", h.jobs}, {"registry", h.models}}
	h.disable(h.bob)
	return h
}

// project creates a project with these members, each given as `username role`.
func (h *transferHarness) project(key string, members ...string) {
	h.t.Helper()
	h.exec(`INSERT INTO project (id, key, name, visibility, created_at) VALUES ('prj_' || $1, $1, $1, 'team', now())`, key)
	for _, m := range members {
		name, role, _ := strings.Cut(m, " ")
		h.exec(`INSERT INTO membership (project_id, account_id, role) SELECT 'prj_' || $1, id, $3 FROM account WHERE username = $2`, key, name, role)
	}
}

func listed(out *authv1.ListOwnedResponse) string {
	text := ""
	for _, o := range out.GetOwned() {
		text += fmt.Sprintf("%s %d ", o.GetKind(), o.GetCount())
	}
	return text
}

func (h *transferHarness) owned(userID string) string {
	h.t.Helper()
	out, err := h.ListOwned(h.ctx(), &authv1.ListOwnedRequest{UserId: userID})
	require.NoError(h.t, err)
	return listed(out)
}

func (h *transferHarness) transfer(from, to string) (string, error) {
	out, err := h.TransferOwned(h.ctx(), &authv1.TransferOwnedRequest{UserId: from, ToUserId: to})
	return listed(out), err
}

func TestServer_TransferOwned(t *testing.T) {
	t.Parallel()
	h := newTransferHarness(t)
	h.project("sole", "bob owner", "eve viewer")
	h.project("shared", "bob owner", "root owner")
	h.project("other", "root owner", "bob editor")
	require.Equal(t, "job 3 model 2 project 1 ", h.owned(h.bob))
	for offset, want := range []string{"job 3 model 2 ", "model 2 project 1 ", "project 1 ", "", ""} {
		page, err := h.ListOwned(h.ctx(), &authv1.ListOwnedRequest{UserId: h.bob, Limit: new(int32(2)), Offset: new(int32(offset))})
		require.NoError(t, err)
		require.Equal(t, want, listed(page), offset)
	}
	moved, err := h.transfer(h.bob, h.eve)
	require.NoError(t, err)
	require.Equal(t, "job 3 model 2 project 1 ", moved)
	require.Equal(t, []string{"", "job 4 model 2 project 1 "}, []string{h.owned(h.bob), h.owned(h.eve)})
	require.Equal(t, []string{"job", "model"}, h.order)
	require.Equal(t, []string{"eve"}, h.jobs.named, "the services receive the new owner's username, which they store")
	require.Equal(t, 1, h.count(`membership WHERE project_id = 'prj_sole'`))
	require.Equal(t, 2, h.count(`membership WHERE account_id = $1`, h.bob), "projects with another owner stay")
	require.Equal(t, 1, h.count(`audit WHERE action = 'project.transfer' AND target_id = 'prj_sole' AND actor_id = 'usr_root'`))
	require.Equal(t, 1, h.count(`audit WHERE action = 'account.transfer' AND target_id = $1 AND after->>'to_user_id' = $2
		AND after->'moved'->>'job' = '3' AND after->'moved'->>'project' = '1'`, h.bob, h.eve))
	again, err := h.transfer(h.bob, h.eve)
	require.NoError(t, err)
	require.Empty(t, again)
}

// A disabled owner does not count as another owner.
func TestServer_TransferOwned_otherOwnerDisabled(t *testing.T) {
	t.Parallel()
	h := newTransferHarness(t)
	ann := h.add("ann", operator)
	h.project("two", "bob owner", "ann owner")
	require.Equal(t, "job 3 model 2 ", h.owned(h.bob))
	h.disable(ann)
	_, err := h.transfer(h.bob, h.eve)
	require.NoError(t, err)
	require.Equal(t, 1, h.count(`membership m JOIN account a ON a.id = m.account_id WHERE m.role = 'owner' AND a.username = 'eve'`))
}

func TestServer_TransferOwned_resumesAfterFailure(t *testing.T) {
	t.Parallel()
	h := newTransferHarness(t)
	h.project("sole", "bob owner")
	h.models.err = fault.New(fault.Unavailable, "", "registry is unavailable").WithRetryAfter(time.Second)
	_, err := h.transfer(h.bob, h.eve)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.EqualValues(t, 4, h.jobs.owns[h.eve], "moved objects stay with the new owner")
	require.Equal(t, 1, h.count(`membership WHERE account_id = $1`, h.bob))
	_, err = h.ListOwned(h.ctx(), &authv1.ListOwnedRequest{UserId: h.bob})
	require.True(t, fault.Is(err, fault.Unavailable), "an incomplete count is an error: %v", err)
	h.models.err = nil

	ann := h.add("ann", operator)
	_, err = h.transfer(h.bob, ann)
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "transfer_pending"), "the rest cannot go to another user: %v", err)
	h.disable(h.eve)
	moved, err := h.transfer(h.bob, h.eve)
	require.NoError(t, err, "a pending transfer finishes even if the receiver is disabled")
	require.Equal(t, "model 2 project 1 ", moved)
	moved, err = h.transfer(h.eve, ann)
	require.NoError(t, err)
	require.Equal(t, "job 4 model 2 project 1 ", moved, "the receiver's objects can be transferred in turn")
	require.Equal(t, 1, h.count(`audit WHERE action = 'account.transfer_begin' AND target_id = $1`, h.bob))
	require.Zero(t, h.count(`account WHERE transfer_to_id IS NOT NULL`))
}

func TestServer_TransferOwned_refusedByFirstHolder(t *testing.T) {
	t.Parallel()
	h := newTransferHarness(t)
	ann := h.add("ann", operator)
	h.jobs.err = fault.New(fault.Conflict, "quota", "quota: too much")
	_, err := h.transfer(h.bob, h.eve)
	require.True(t, fault.HasCode(err, "quota"), "%v", err)
	h.jobs.err = nil
	_, err = h.transfer(h.bob, ann)
	require.NoError(t, err)

	h = newTransferHarness(t)
	h.models.err = fault.New(fault.Conflict, "quota", "later")
	_, err = h.transfer(h.bob, h.eve)
	require.True(t, fault.HasCode(err, "quota"), "%v", err)
	h.jobs.err = h.models.err
	_, err = h.transfer(h.bob, h.eve)
	require.True(t, fault.HasCode(err, "quota"), "%v", err)
	h.jobs.err, h.models.err = nil, nil
	_, err = h.transfer(h.bob, h.add("ann", operator))
	require.True(t, fault.HasCode(err, "transfer_pending"), "another receiver is rejected, because the first holder has already moved objects: %v", err)
}

func TestServer_TransferOwned_rejects(t *testing.T) {
	t.Parallel()
	h := newTransferHarness(t)
	off := h.add("off", operator)
	h.disable(off)
	for name, c := range map[string]struct {
		from, to, code string
		kind           fault.Kind
	}{
		"from an enabled user": {h.eve, h.bob, "user_enabled", fault.Conflict},
		"to a disabled user":   {h.bob, off, "user_disabled", fault.Conflict},
		"to the same user":     {h.bob, h.bob, "transfer", fault.Refused},
		"to an unknown user":   {h.bob, nobody, "transfer", fault.Refused},
		"to an invalid id":     {h.bob, "eve", "", fault.Invalid},
	} {
		_, err := h.transfer(c.from, c.to)
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
		require.Equal(t, c.code, fault.From(err).Code, name)
	}
	require.Empty(t, h.order)
	require.Zero(t, h.count(`account WHERE transfer_to_id IS NOT NULL`))
	require.Zero(t, h.count(`audit WHERE action LIKE 'account.transfer%'`))
}

func TestServer_TransferOwned_serviceNotConnected(t *testing.T) {
	t.Parallel()
	h := newTransferHarness(t)
	h.Transfers.Holders[1].Client = nil
	_, err := h.ListOwned(h.ctx(), &authv1.ListOwnedRequest{UserId: h.bob})
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	_, err = h.transfer(h.bob, h.eve)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Equal(t, 1, h.count(`account WHERE transfer_to_id = $1`, h.eve), "the transfer stays pending, so that a repeat continues it")
}

func TestTransfers_Transfer_concurrentReceivers(t *testing.T) {
	t.Parallel()
	h := newTransferHarness(t)
	ann := h.add("ann", operator)
	h.project("sole", "bob owner")
	var wg sync.WaitGroup
	for _, to := range []string{h.eve, ann, h.eve, ann} {
		wg.Go(func() {
			if _, err := h.Transfers.Transfer(t.Context(), h.bob, to); err != nil && !fault.HasCode(err, "transfer_pending") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	jobs, models := h.jobs.owns[ann] > 0, h.models.owns[ann] > 0
	require.Equal(t, jobs, models, "all objects went to one user")
	require.EqualValues(t, 4, h.jobs.owns[ann]+h.jobs.owns[h.eve])
	require.Equal(t, 1, h.count(`membership`))
}
