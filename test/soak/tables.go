package soak

import "time"

// Table is a table of a service's schema, and what bounds it.
type Table struct {
	// Name is schema.table. A name without a schema is a table that every schema has.
	Name string
	// Rule is the name of the retention rule that deletes the rows. Setting is the name of the setting with their
	// maximum age; it is empty if the API promises a fixed age.
	Rule, Setting string
	// Since is an SQL expression with the time from which the age of a row counts, or NULL for a row without an age. It
	// is empty for a table whose rows are deleted together with rows of another table.
	Since string
	// Within is the longest life of a row of a table without a setting. Most is the largest number of rows of such a
	// table. Both hold while no process is killed. Zero means no limit.
	Within time.Duration
	Most   int64
	// Kept is the reason why the table has no age.
	Kept string
}

// These are the reasons why a table has no age.
const (
	few      = "one row, or one row for each object; users or admins delete the objects"
	fixed    = "a fixed number of rows"
	history  = "admins write a row for each change; a change is rare, and the history is part of the record of what they did"
	exempt   = "the audit log is never deleted"
	minutes  = "rows live for seconds or minutes; a loop of the service deletes them"
	record   = "the record of a run: small, and models, shares and other runs refer to it"
	catalog  = "what users have published; they archive or delete it"
	outbox   = "deleted when the receiver has confirmed the change"
	replica  = "one row for each replica that had a lease in the last hours"
	river    = "the queue's own bookkeeping, one row for each client or queue"
	versions = "one row for each migration"
	runData  = "SERVICE_RUN_DATA_DAYS"
)

// Tables returns the tables of all schemas. Partitions are not listed.
func Tables() []Table {
	all := [][]Table{common(), authTables(), jobsTables(), ingestTables(), registryTables(), inferenceTables()}
	var out []Table
	for _, tables := range all {
		out = append(out, tables...)
	}
	return out
}

// kept returns the tables with these names, all with the same reason for being kept.
func kept(reason string, names ...string) []Table {
	out := make([]Table, 0, len(names))
	for _, name := range names {
		out = append(out, Table{Name: name, Kept: reason})
	}
	return out
}

func common() []Table {
	return append([]Table{
		{Name: "event", Rule: "event", Setting: "SERVICE_EVENT_DAYS", Since: "at"},
		{Name: "idempotency", Rule: "stored response", Since: "expires_at - interval '24 hours'"},
		{Name: "revocation", Rule: "revocation", Setting: "SERVICE_REVOCATION_DAYS", Since: "at + interval '7 days'"},
		{Name: "river_job", Rule: "background task", Setting: "SERVICE_TASK_DAYS", Since: "finalized_at"},
	}, append(append(kept(exempt, "audit", "audit_pending", "audit_seal", "audit_checkpoint"),
		kept(river, "river_leader", "river_queue", "river_notification")...),
		append(kept(fixed, "continuity"), kept(versions, "goose_db_version", "goose_common_version", "river_migration")...)...)...)
}

func authTables() []Table {
	const ended = "SERVICE_AUTH_ENDED_DAYS"
	return append([]Table{
		{Name: "auth.session", Rule: "session", Setting: ended, Since: "expires_at"},
		{Name: "auth.refresh_token", Rule: "refresh token", Setting: ended, Since: "expires_at"},
		{Name: "auth.oauth_grant", Rule: "grant", Setting: ended},
		{Name: "auth.oauth_refresh_token", Rule: "grant", Setting: ended},
		{Name: "auth.device_code", Rule: "device code", Setting: ended, Since: "expires_at"},
	}, append(append(append(append(
		kept(few, "auth.account", "auth.project", "auth.membership", "auth.team", "auth.team_member", "auth.oidc_identity", "auth.oauth_client"),
		kept(fixed, "auth.maintenance", "auth.agent_model_test", "auth.caller_epoch", "auth.setting_revision")...),
		kept(history, "auth.setting_version", "auth.signing_key")...),
		kept(minutes, "auth.login_attempt", "auth.device_attempt", "auth.oidc_sign_in", "auth.refresh_salt", "auth.sign_in_link", "auth.gateway_lease")...),
		kept(outbox, "auth.project_visibility_change")...)...)
}

func jobsTables() []Table {
	const ended, token, share = "SERVICE_JOBS_ENDED_DAYS", "SERVICE_JOBS_TOKEN_DAYS", "SERVICE_JOBS_SHARE_DAYS"
	return append([]Table{
		{Name: "jobs.job", Rule: "ended job", Setting: ended, Since: "ended_at"},
		{Name: "jobs.attempt", Rule: "ended job", Setting: ended},
		{Name: "jobs.drain_pause", Rule: "ended job", Setting: ended},
		{Name: "jobs.work", Rule: "ended work", Setting: "SERVICE_JOBS_WORK_DAYS", Since: "CASE kind WHEN 'attempt' THEN released_at END"},
		{Name: "jobs.ingest_token", Rule: "ingest token", Setting: token, Since: "expires_at"},
		{Name: "jobs.join_token", Rule: "join token", Setting: token, Since: "least(expires_at, revoked_at)"},
		{Name: "jobs.share", Rule: "share", Setting: share, Since: "least(expires_at, revoked_at)"},
		{Name: "jobs.share_pin", Rule: "share", Setting: share},
		{Name: "jobs.job_change", Rule: "job change", Setting: "SERVICE_JOBS_CHANGE_DAYS", Since: "at"},
		{Name: "jobs.run_change", Rule: "run change", Setting: "SERVICE_JOBS_CHANGE_DAYS", Since: "at"},
	}, append(append(append(append(
		kept(record, "jobs.run", "jobs.run_note", "jobs.run_summary", "jobs.run_hparam", "jobs.run_metric", "jobs.run_best"),
		kept(few, "jobs.fleet", "jobs.pool", "jobs.node", "jobs.account", "jobs.project_visibility")...),
		kept(history, "jobs.hardware_config")...),
		kept(fixed, "jobs.hardware_head", "jobs.job_feed", "jobs.run_feed")...),
		kept(replica, "jobs.hardware_replica")...)...)
}

func ingestTables() []Table {
	const rule = "run data"
	out := []Table{
		{Name: "ingest.request_digest", Rule: "request digest", Setting: "SERVICE_INGEST_DIGEST_DAYS", Since: "created_at"},
		{Name: "ingest.object_hold", Rule: "object hold", Setting: "SERVICE_OBJECT_DAYS", Since: "held_until"},
		{Name: "ingest.artifact", Rule: rule, Setting: runData},
	}
	for _, name := range []string{
		"mark", "ahead", "metric_key", "metric_batch", "metric_segment", "metric_block", "metric_summary", "metric_hot",
		"log_chunk", "log_tail", "hparam_history", "validation_chunk", "sample", "rank_validation_chunk", "rank_sample", "record",
		"hardware_series", "hardware_batch", "rollout",
	} {
		out = append(out, Table{Name: "ingest." + name, Rule: rule, Setting: runData})
	}
	return append(out, append(
		kept(record, "ingest.run", "ingest.hparam", "ingest.rank_hparam", "ingest.validation_round", "ingest.rank_validation_round", "ingest.attempt_step",
			"ingest.benchmark_score", "ingest.evaluation"),
		kept(few, "ingest.project_visibility")...)...)
}

func registryTables() []Table {
	const upload, deleted = "SERVICE_REGISTRY_UPLOAD_DAYS", "SERVICE_REGISTRY_DELETED_DAYS"
	return append([]Table{
		{Name: "registry.playground_session", Rule: "playground session", Setting: "SERVICE_REGISTRY_PLAYGROUND_DAYS", Since: "ended_at"},
		{Name: "registry.dataset_version", Rule: "dataset upload", Setting: upload, Since: "CASE state WHEN 'uploading' THEN upload_until END"},
		{Name: "registry.environment_version", Rule: "environment upload", Setting: upload, Since: "CASE state WHEN 'uploading' THEN created_at END"},
		{Name: "registry.package", Rule: "unused package", Setting: upload, Since: "CASE WHEN state <> 'accepted' THEN created_at END"},
		{Name: "registry.deployment_token", Rule: "deployment token", Setting: deleted, Since: "revoked_at"},
		{Name: "registry.deployment", Rule: "deleted deployment", Setting: deleted},
		{Name: "registry.revision", Rule: "deleted deployment", Setting: deleted},
		{Name: "registry.model", Rule: "deleted model", Setting: deleted},
		{Name: "registry.model_version", Rule: "deleted model", Setting: deleted},
		{Name: "registry.model_alias", Rule: "deleted model", Setting: deleted},
		{Name: "registry.model_history", Rule: "deleted model", Setting: deleted},
		{Name: "registry.model_card", Rule: "deleted model", Setting: deleted},
		{Name: "registry.object_hold", Rule: "object hold", Setting: "SERVICE_OBJECT_DAYS", Since: "held_until"},
		{Name: "registry.environment", Rule: "deleted environment", Setting: deleted, Since: "deleted_at"},
	}, append(append(append(
		kept(catalog, "registry.recipe", "registry.dataset", "registry.rubric", "registry.rubric_version", "registry.solution", "registry.solution_application"),
		kept(fixed, "registry.snapshot_epoch", "registry.snapshot_change")...),
		kept(few, "registry.project_visibility")...),
		kept(replica, "registry.inference_replica")...)...)
}

func inferenceTables() []Table {
	// Calls are deleted by whole days, so their age counts from the end of their day.
	const endOfDay = "(date_trunc('day', at AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC'"
	return []Table{
		{Name: "inference.call", Rule: "day of calls", Setting: "SERVICE_INFERENCE_TRAFFIC_DAYS", Since: endOfDay},
		{Name: "inference.call_rollup", Rule: "rollup of calls", Setting: "SERVICE_INFERENCE_ROLLUP_DAYS", Since: "at"},
		{Name: "inference.call_rollup_since", Kept: fixed},
		{Name: "inference.batch", Rule: "batch name", Most: 100},
		{Name: "inference.playground_turn", Rule: "playground turn", Setting: "SERVICE_INFERENCE_TRANSCRIPT_DAYS", Since: "at"},
		{Name: "inference.engine_silence", Kept: minutes, Since: "suspected_at", Within: 15 * time.Minute},
	}
}
