// Package solution owns solutions and their applications. A solution is a manifest that a project stores with the name
// and the version stated in the manifest; it never changes. An application binds a solution to a model, two datasets, a
// taskset and a rubric. It stores a snapshot: exact references and the digests in the catalog at that time.
//
// It promises:
//   - Every binding of an application was in the catalog, and the applicant was allowed to read it.
//   - The digest of an application is the digest of its snapshot's canonical JSON.
//   - A project has one application per digest, even under concurrent requests.
//   - A snapshot never changes.
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

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// SubjectKind and ApplicationKind are the kinds of solutions and applications in events and audit entries.
const (
	SubjectKind     = "solution"
	ApplicationKind = "solution_application"
)

// PageSize is the number of applications in a page.
const PageSize = 50

// The gates that can refuse an application. Refusals carry the name of the gate as their code.
const (
	GateSolution   = "solution"
	GateBindings   = "bindings"
	GateValidation = "validation_dataset"
	GateRecipe     = "recipe"
	GateTasks      = "evaluation_tasks"
)

// Solution is a stored manifest of a project.
type Solution struct {
	access.Owner

	ID        string
	Name      string
	Version   string
	Digest    string
	Manifest  json.RawMessage
	CreatedAt time.Time
}

// String returns <name>@<version>, the form in which applications refer to a solution.
func (s *Solution) String() string { return s.Name + "@" + s.Version }

// Application is one application of a solution.
type Application struct {
	access.Owner

	ID       string
	Solution string
	Digest   string
	Snapshot Snapshot
	// Resolved contains the digest to which each binding resolved, by binding name.
	Resolved  map[string]string
	CreatedAt time.Time
}

// Snapshot contains all that an application pins. The API returns its JSON encoding, and the digest is computed from
// it.
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

// The names of the bindings, and of the recipe, which can drift too.
const (
	BindModel      = "model"
	BindTrain      = "train_dataset"
	BindValidation = "validation_dataset"
	BindTaskset    = "taskset"
	BindRubric     = "rubric"
	BindRecipe     = "recipe"
)

// take builds the snapshot of a manifest and its resolved bindings.
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
		return s, refuse(GateTasks, "the taskset is infinite; set evaluation_tasks in the manifest")
	case m.EvaluationTasks != nil && !r.Taskset.Infinite && *m.EvaluationTasks > r.Taskset.Count:
		return s, refuse(GateTasks, "the manifest requests %d tasks; the taskset has %d", *m.EvaluationTasks, r.Taskset.Count)
	case m.EvaluationTasks != nil:
		s.EvaluationTasks = *m.EvaluationTasks
	}
	var err error
	s.BusinessCohortDigest, err = cohort(s.BusinessTaskIDs)
	return s, err
}

// cohort returns the digest of sorted ids, or "" for an empty list.
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

// Sum returns the digest of a snapshot and the JSON that is stored.
func (s *Snapshot) Sum() (digest string, raw []byte, err error) {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false) // keep the opaque members of the manifest as written
	if err := out.Encode(s); err != nil {
		return "", nil, fmt.Errorf("encode a snapshot: %w", err)
	}
	raw = text.Bytes()
	if digest, err = canon.Digest(raw); err != nil {
		return "", nil, fmt.Errorf("digest a snapshot: %w", err)
	}
	return digest, raw, nil
}

// split splits <name>@<version>. The result ok is false if the text does not have this form.
func split(text string) (name, version string, ok bool) {
	name, version, ok = strings.Cut(text, "@")
	return name, version, ok && name != "" && version != "" && !strings.Contains(version, "@")
}

func refuse(gate, format string, args ...any) error {
	return fault.New(fault.Refused, gate, gate+": "+format, args...)
}
