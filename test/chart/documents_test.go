package chart

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// settings returns the names of all settings, and of the files of secret ones.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(SERVICE_[A-Z0-9_]+)` \\| ([a-z ]+) \\|").FindAllStringSubmatch(readTop(t, "docs/reference/settings.md"), -1) {
		known[m[1]] = true
		if m[2] == "secret" {
			known[m[1]+"_FILE"] = true
		}
	}
	require.Greater(t, len(known), 100)
	return known
}

// metricNames returns the names of all metrics of the services. In the code each is a whole literal, except those of
// tables, whose names begin with jobs or runs. The Go and process metrics are those of Prometheus' library.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{"process_cpu_seconds_total": true, "process_open_fds": true, "process_max_fds": true, "process_start_time_seconds": true}
	instrument := regexp.MustCompile(`(?:Int64|Float64)(?:Observable)?(?:Counter|Gauge|Histogram|UpDownCounter)\(|prometheus\.\w+Opts`)
	literal := regexp.MustCompile(`"(_?[a-z]+(?:_[a-z]+)+)"`)
	for _, dir := range []string{"platform", "services", "gateway", "internal"} {
		walk(t, dir, ".go", func(name, content string) {
			if strings.HasSuffix(name, "_test.go") || !instrument.MatchString(content) {
				return
			}
			for _, m := range literal.FindAllStringSubmatch(content, -1) {
				if suffix, ofTable := strings.CutPrefix(m[1], "_"); ofTable {
					known["jobs_"+suffix], known["runs_"+suffix] = true, true
				}
				known[m[1]] = true
			}
		})
	}
	require.True(t, known["inference_calls_total"])
	return known
}

// expressions returns the PromQL of all alerts and dashboards.
func expressions(r rendered) (out []string, err error) {
	for _, p := range all[monitoringv1.PrometheusRule](r) {
		for _, g := range p.Spec.Groups {
			for _, one := range g.Rules {
				out = append(out, one.Expr.String())
			}
		}
	}
	for _, m := range all[corev1.ConfigMap](r) {
		for key, content := range m.Data {
			if !strings.HasSuffix(key, ".json") {
				continue
			}
			var board struct {
				Panels []struct {
					Targets []struct{ Expr string }
				}
				Templating struct{ List []struct{ Query any } }
			}
			if err := json.Unmarshal([]byte(content), &board); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			for _, p := range board.Panels {
				for _, target := range p.Targets {
					out = append(out, target.Expr)
				}
			}
			for _, v := range board.Templating.List {
				if query, ok := v.Query.(map[string]any); ok {
					out = append(out, fmt.Sprint(query["query"]))
				}
			}
		}
	}
	return out, nil
}

// metricsIn returns the names of metrics in PromQL: names that neither precede a parenthesis nor are within braces, or
// within a list of labels.
func metricsIn(expr string) []string {
	expr = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]`).ReplaceAllString(expr, "")
	expr = regexp.MustCompile(`\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)`).ReplaceAllString(expr, "")
	var names []string
	for _, m := range regexp.MustCompile(`[a-z][a-z0-9]*(?:_[a-z0-9]+)+`).FindAllStringIndex(expr, -1) {
		if !strings.HasPrefix(strings.TrimSpace(expr[m[1]:]), "(") && !strings.HasPrefix(strings.TrimSpace(expr[:m[0]]), ",") {
			names = append(names, expr[m[0]:m[1]])
		}
	}
	return names
}

// metricsExist returns a rule that requires that alerts and dashboards name only metrics that the code has.
func metricsExist(known map[string]bool) rule {
	return func(r rendered) (faults []string) {
		exprs, err := expressions(r)
		if err != nil {
			return []string{err.Error()}
		}
		for _, expr := range exprs {
			names := metricsIn(expr)
			if len(names) == 0 {
				faults = append(faults, "no metric in "+expr)
			}
			for _, name := range names {
				base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
				if !known[name] && !known[base] {
					faults = append(faults, fmt.Sprintf("the metric %s does not exist: %s", name, expr))
				}
			}
		}
		return faults
	}
}

// runbooks returns a rule that requires that each alert has a severity, a summary, and a link to a heading of a page that
// the documentation site has.
func runbooks(headings map[string]bool) rule {
	return func(r rendered) (faults []string) {
		for _, p := range all[monitoringv1.PrometheusRule](r) {
			for _, g := range p.Spec.Groups {
				for _, one := range g.Rules {
					_, page, _ := strings.Cut(one.Annotations["runbook_url"], "/docs/")
					if one.Labels["severity"] == "" || one.Annotations["summary"] == "" || !headings[page] {
						faults = append(faults, fmt.Sprintf("%s: the severity or the summary is missing, or there is no page or heading %q", one.Alert, page))
					}
				}
			}
		}
		return faults
	}
}

// headings returns the address of each heading of the documentation site, below /docs/.
func headings(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	add := func(file, content string) {
		page := strings.TrimSuffix(strings.TrimPrefix(file, "docs/"), ".md")
		if file == "deploy/README.md" {
			page = "deploy"
		}
		for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(content, -1) {
			slug := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
			known[page+"/#"+regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(slug, "")] = true
		}
	}
	walk(t, "docs/reference", ".md", add)
	add("deploy/README.md", readTop(t, "deploy/README.md"))
	return known
}
