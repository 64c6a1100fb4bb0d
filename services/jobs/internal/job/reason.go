package job

import "slices"

// End reasons: why a job or an attempt ended. The list is closed: the API returns no other reasons.
const (
	ReasonCompleted    = "completed"
	ReasonUserError    = "user_error"
	ReasonOOMHost      = "oom_host"
	ReasonEnvBuild     = "env_build"
	ReasonFetch        = "fetch_failed"
	ReasonStartTimeout = "start_timeout"
	ReasonTimeLimit    = "time_limit"
	ReasonQueueTimeout = "queue_timeout"
	ReasonExecutorLost = "executor_lost"
	ReasonUserStop     = "user_stop"
	ReasonAdminStop    = "admin_stop"
	// ReasonSilent ends only runs without a job.
	ReasonSilent = "silent"
)

// Retry classes: the kinds of ends that a spec can retry. No end reason has RetryPreempted, because
// nothing preempts jobs yet.
const (
	RetryInfra     = "infra"
	RetryPreempted = "preempted"
)

// The points from which a retry starts.
const (
	ResumeLatest = "latest"
	ResumeNone   = "none"
)

// EndReason describes an end reason: the state to which it leads, and its retry class, which is empty if it is never
// retried.
type EndReason struct {
	State State
	Class string
}

// EndReasons returns the state and the retry class of every end reason.
func EndReasons() map[string]EndReason {
	return map[string]EndReason{
		ReasonCompleted:    {Succeeded, ""},
		ReasonUserError:    {Failed, ""},
		ReasonOOMHost:      {Failed, ""},
		ReasonEnvBuild:     {Failed, ""},
		ReasonFetch:        {Failed, RetryInfra},
		ReasonStartTimeout: {Stopped, ""},
		ReasonTimeLimit:    {Stopped, ""},
		ReasonQueueTimeout: {Failed, ""},
		ReasonExecutorLost: {Failed, RetryInfra},
		ReasonUserStop:     {Stopped, ""},
		ReasonAdminStop:    {Stopped, ""},
	}
}

// retries reports whether the job's spec retries this reason and retries are left.
func (j *Job) retries(reason string) bool {
	class := EndReasons()[reason].Class
	return class != "" && j.Retries < j.RetryMax && (j.RetryOn == nil || slices.Contains(j.RetryOn, class))
}
