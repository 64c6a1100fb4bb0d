package catalog

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// The bounds of a lineage if the request has none.
const (
	defaultDepth = 3
	defaultNodes = 100
)

// LineageServer implements LineageService.
type LineageServer struct {
	registryv1.UnimplementedLineageServiceServer

	Pool     *pgxpool.Pool
	Datasets dataset.Store
	Models   model.Store
	Runs     jobspeerv1.RunLineagePeerServiceClient
}

// GetRunLineage returns the lineage of a run, which is named by its id or by the id of its job.
func (s *LineageServer) GetRunLineage(ctx context.Context, in *registryv1.GetRunLineageRequest) (*registryv1.Lineage, error) {
	kind, prefix := "run", id.Run
	if strings.HasPrefix(in.GetId(), string(id.Job)+"_") {
		kind, prefix = "job", id.Job
	}
	if err := request.ID(prefix, "id", in.GetId()); err != nil {
		return nil, err
	}
	return s.lineage(ctx, place{kindRun, in.GetId()}, fault.Absentf(kind, in.GetId()), in)
}

// GetDatasetLineage returns the lineage of a dataset version.
func (s *LineageServer) GetDatasetLineage(ctx context.Context, in *registryv1.GetDatasetLineageRequest) (*registryv1.Lineage, error) {
	if err := request.ID(id.Dataset, "dataset_id", in.GetDatasetId()); err != nil {
		return nil, err
	}
	d, err := s.Datasets.Get(ctx, s.Pool, authn.ScopeOf(ctx), in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	of := ref.Ref{Kind: ref.Dataset, Project: d.Project, Name: d.Name, Version: in.GetVersion()}
	return s.lineage(ctx, place{kindDataset, of.String()}, fault.Absentf(dataset.VersionKind, in.GetVersion()), in)
}

// GetModelLineage returns the lineage of a model version.
func (s *LineageServer) GetModelLineage(ctx context.Context, in *registryv1.GetModelLineageRequest) (*registryv1.Lineage, error) {
	if err := request.ID(id.Model, "model_id", in.GetModelId()); err != nil {
		return nil, err
	}
	m, err := s.Models.Get(ctx, s.Pool, authn.ScopeOf(ctx), in.GetModelId())
	if err != nil {
		return nil, err
	}
	number := strconv.Itoa(int(in.GetVersion()))
	of := ref.Ref{Kind: ref.Model, Project: m.Project, Name: m.Name, Version: number}
	return s.lineage(ctx, place{kindModel, of.String()}, fault.Absentf(model.VersionKind, number), in)
}

// GetRevisionLineage returns the lineage of a revision.
func (s *LineageServer) GetRevisionLineage(ctx context.Context, in *registryv1.GetRevisionLineageRequest) (*registryv1.Lineage, error) {
	if err := request.ID(id.Deployment, "deployment_id", in.GetDeploymentId()); err != nil {
		return nil, err
	}
	of := revisionPlace(in.GetDeploymentId(), in.GetNumber())
	return s.lineage(ctx, of, fault.Absentf("revision", of.ref), in)
}

// bounds are the fields that all requests have.
type bounds interface {
	GetDirection() string
	GetDepth() int32
	GetNodes() int32
}

// lineage returns the lineage of a place, or the error absent if the caller may not read the object there.
func (s *LineageServer) lineage(ctx context.Context, at place, absent error, in bounds) (*registryv1.Lineage, error) {
	from := &owners{LineageServer: s, scope: authn.ScopeOf(ctx)}
	found, err := from.read(ctx, []place{at})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, absent
	}
	depth, nodes := int(in.GetDepth()), int(in.GetNodes())
	if depth == 0 {
		depth = defaultDepth
	}
	if nodes == 0 {
		nodes = defaultNodes
	}
	w := newWalk(from, found[0], nodes)
	if in.GetDirection() != "down" {
		err = w.follow(ctx, -1, depth)
	}
	if err == nil && in.GetDirection() != "up" {
		err = w.follow(ctx, 1, depth)
	}
	if err != nil {
		return nil, err
	}
	return w.toProto(), nil
}

// toProto gives each node a key of its own, so that the ids of hidden objects are in no response.
func (w *walk) toProto() *registryv1.Lineage {
	out := &registryv1.Lineage{Root: "n1"}
	keys, visible := map[place]string{}, map[place]bool{}
	for i, n := range w.nodes {
		visible[n.place] = n.visible
		keys[n.place] = "n" + strconv.Itoa(i+1)
		m := &registryv1.LineageNode{Key: keys[n.place], Kind: n.kind, Visible: n.visible, Distance: int32(n.distance), More: n.more}
		out.More = out.GetMore() || n.more
		if n.visible {
			m.Id, m.Name, m.Project, m.State, m.MadeAt = &n.id, &n.name, &n.project, &n.state, timestamppb.New(n.createdAt)
			m.Version, m.Digest, m.JobId = optional(n.version), optional(n.digest), optional(n.jobID)
		}
		out.Nodes = append(out.Nodes, m)
	}
	for _, h := range w.hops {
		e := &registryv1.LineageEdge{Source: keys[h.source], Target: keys[h.target], Relation: h.relation}
		if visible[h.target] {
			e.Detail = optional(h.detail) // the owner of a hidden run chose the name of its input
		}
		out.Edges = append(out.Edges, e)
	}
	return out
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
