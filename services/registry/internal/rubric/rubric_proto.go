package rubric

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// ToProto converts a rubric for the API.
func ToProto(r *Rubric) *registryv1.Rubric {
	return &registryv1.Rubric{
		Id: r.ID, Name: r.Name, Project: r.Project, Owner: r.UserName, Description: r.Description, Visibility: r.Visibility,
		CurrentVersion: r.Current, CreatedAt: timestamppb.New(r.CreatedAt),
	}
}

func versionToProto(r *Rubric, v *Version) *registryv1.RubricVersion {
	out := &registryv1.RubricVersion{
		Id: v.ID, RubricId: v.RubricID, Version: v.Number, Ref: r.Ref(v.Number), Status: string(v.Status), Digest: v.Digest,
		Content: contentToProto(&v.Content), CreatedAt: timestamppb.New(v.CreatedAt),
	}
	out.PublishedAt = request.OptionalTime(v.PublishedAt)
	return out
}

func contentToProto(c *Content) *registryv1.RubricContent {
	out := &registryv1.RubricContent{Instructions: c.Instructions, Aggregation: c.Aggregation, PassAt: c.PassAt}
	for i := range c.Criteria {
		out.Criteria = append(out.Criteria, criterionToProto(&c.Criteria[i]))
	}
	return out
}

func criterionToProto(c *Criterion) *registryv1.RubricCriterion {
	out := &registryv1.RubricCriterion{
		Key: c.Key, Title: c.Title, Description: c.Description, Weight: c.Weight, Kind: c.Kind, PassAt: c.PassAt, Veto: c.Veto,
		EvidenceRequired: c.EvidenceRequired, NaAllowed: c.NAAllowed,
	}
	if string(c.Config) != "null" {
		out.Config = c.Config
	}
	if c.Scale != nil {
		out.Scale = &registryv1.RubricScale{Min: c.Scale.Min, Max: c.Scale.Max}
		for _, a := range c.Scale.Anchors {
			out.Scale.Anchors = append(out.Scale.Anchors, &registryv1.RubricAnchor{Value: a.Value, Description: a.Description, Example: a.Example})
		}
	}
	return out
}

func contentFromProto(in *registryv1.RubricContent) Content {
	c := Content{Instructions: in.GetInstructions(), Criteria: []Criterion{}, Aggregation: in.GetAggregation(), PassAt: in.PassAt}
	if c.Aggregation == "" {
		c.Aggregation = DefaultAggregation
	}
	for _, m := range in.GetCriteria() {
		c.Criteria = append(c.Criteria, criterionFromProto(m))
	}
	return c
}

func criterionFromProto(in *registryv1.RubricCriterion) Criterion {
	c := Criterion{
		Key: in.GetKey(), Title: in.GetTitle(), Description: in.GetDescription(), Weight: in.GetWeight(), Kind: in.GetKind(),
		PassAt: in.PassAt, Veto: in.GetVeto(), EvidenceRequired: in.GetEvidenceRequired(), NAAllowed: in.GetNaAllowed(),
	}
	if len(in.GetConfig()) > 0 && string(in.GetConfig()) != "null" {
		c.Config = in.GetConfig()
	}
	if s := in.GetScale(); s != nil {
		c.Scale = &Scale{Min: s.GetMin(), Max: s.GetMax(), Anchors: []Anchor{}}
		for _, a := range s.GetAnchors() {
			c.Scale.Anchors = append(c.Scale.Anchors, Anchor{Value: a.GetValue(), Description: a.GetDescription(), Example: a.GetExample()})
		}
	}
	return c
}
