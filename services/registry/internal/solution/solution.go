// Package solution keeps solutions and what they were applied to. A solution is a manifest of a project under the
// name and the version that it gives itself; it never changes. An application binds one to a model, two datasets,
// a taskset and a rubric, and keeps the snapshot of it all: exact references, and the digests that the catalog had.
//
// It promises that every binding was in the catalog and readable by who applied, that the digest of an application
// is that of its snapshot's canonical JSON, that a project has one application of a digest however many ask for
// it at once, and that a snapshot never changes.
package solution

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
)

// SubjectKind and ApplicationKind name solutions and applications in events, audit and errors.
const (
	SubjectKind     = "solution"
	ApplicationKind = "solution_application"
)

// PageSize is how many applications a page has.
const PageSize = 50

// The gates that refuse an application, by the names that refusals carry.
const (
	GateSolution   = "solution"
	GateBindings   = "bindings"
	GateValidation = "validation_dataset"
	GateRecipe     = "recipe"
	GateTasks      = "evaluation_tasks"
)

// Solution is a manifest that a project keeps.
type Solution struct {
	own.Owner

	ID        string
	Name      string
	Version   string
	Digest    string
	Manifest  json.RawMessage
	CreatedAt time.Time
}

// String is how applications name it.
func (s *Solution) String() string { return s.Name + "@" + s.Version }

// Application is a solution that was applied.
type Application struct {
	own.Owner

	ID       string
	Solution string
	Digest   string
	Snapshot Snapshot
	// Resolved are the digests of what the bindings stood for, by their names.
	Resolved  map[string]string
	CreatedAt time.Time
}

// Snapshot is all that an application pins; its JSON is the one that the API shows, and what the digest is over.
type Snapshot struct {
	Manifest             json.RawMessage   `json:"manifest"`
	Bindings             Bindings          `json:"bindings"`
	TasksetDigest        string            `json:"taskset_digest"`
	EvaluationTasks      int32             `json:"evaluation_tasks"`
	RubricVersion        int32             `json:"rubric_version"`
	RubricDigest         string            `json:"rubric_digest"`
	RecipeDigest         string            `json:"recipe_digest"`
	Requirements         []json.RawMessage `json:"requirements"`
	BusinessTaskIDs      []string          `json:"business_task_ids"`
	BusinessCohortDigest string            `json:"business_cohort_digest"`
	Toolchain            json.RawMessage   `json:"toolchain"`
}

// Bindings are references into the catalog.
type Bindings struct {
	Model             string `json:"model"`
	TrainDataset      string `json:"train_dataset"`
	ValidationDataset string `json:"validation_dataset"`
	Taskset           string `json:"taskset"`
	Rubric            string `json:"rubric"`
}

// The names of the bindings, and of the recipe among what can drift.
const (
	BindModel      = "model"
	BindTrain      = "train_dataset"
	BindValidation = "validation_dataset"
	BindTaskset    = "taskset"
	BindRubric     = "rubric"
	BindRecipe     = "recipe"
)

// take makes a snapshot of a manifest and what it was bound to.
func take(m *Manifest, r *Resolved, businessTasks []string) (Snapshot, error) {
	s := Snapshot{
		Manifest: m.Raw, Bindings: r.Bindings, TasksetDigest: r.Taskset.Digest, EvaluationTasks: r.Taskset.Count,
		RubricVersion: r.RubricVersion, RubricDigest: r.Digests[BindRubric], RecipeDigest: r.Digests[BindRecipe],
		Requirements: m.Requirements, BusinessTaskIDs: slices.Sorted(slices.Values(businessTasks)), Toolchain: m.Toolchain,
	}
	if s.BusinessTaskIDs == nil {
		s.BusinessTaskIDs = []string{}
	}
	switch {
	case m.EvaluationTasks == nil && r.Taskset.Infinite:
		return s, refuse(GateTasks, "the taskset has no end: the manifest must say how many tasks are evaluated")
	case m.EvaluationTasks != nil && !r.Taskset.Infinite && *m.EvaluationTasks > r.Taskset.Count:
		return s, refuse(GateTasks, "the manifest asks for %d tasks, the taskset has %d", *m.EvaluationTasks, r.Taskset.Count)
	case m.EvaluationTasks != nil:
		s.EvaluationTasks = *m.EvaluationTasks
	}
	var err error
	s.BusinessCohortDigest, err = cohort(s.BusinessTaskIDs)
	return s, err
}

// cohort is the digest of sorted ids, "" of none.
func cohort(ids []string) (string, error) {
	if len(ids) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(ids)
	if err != nil {
		return "", fmt.Errorf("write business task ids: %w", err)
	}
	form, err := canon.JSON(raw)
	if err != nil {
		return "", fmt.Errorf("write business task ids: %w", err)
	}
	sum := sha256.Sum256(form)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Sum is the digest of a snapshot, and its JSON as it is kept.
func (s *Snapshot) Sum() (digest string, raw []byte, err error) {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false) // what is the solution's own is kept as it was written
	if err := out.Encode(s); err != nil {
		return "", nil, fmt.Errorf("write a snapshot: %w", err)
	}
	raw = text.Bytes()
	if digest, err = canon.Digest(raw); err != nil {
		return "", nil, fmt.Errorf("digest a snapshot: %w", err)
	}
	return digest, raw, nil
}

// split takes a reference apart at its version.
func split(text string) (name, version string, ok bool) {
	name, version, ok = strings.Cut(text, "@")
	return name, version, ok && name != "" && version != "" && !strings.Contains(version, "@")
}

func refuse(gate, format string, args ...any) error {
	return fault.New(fault.Refused, gate, gate+": "+format, args...)
}
