package job

import "slices"

// End reasons: why a job or an attempt ended. The list is closed: the API returns no other reasons. It includes
// reasons that nothing produces yet.
const (
	ReasonCompleted         = "completed"
	ReasonUserError         = "user_error"
	ReasonOOMHost           = "oom_host"
	ReasonOOMGPU            = "oom_gpu"
	ReasonGPUFault          = "gpu_fault"
	ReasonNodeLost          = "node_lost"
	ReasonImagePull         = "image_pull"
	ReasonEnvBuild          = "env_build"
	ReasonStartTimeout      = "start_timeout"
	ReasonTimeLimit         = "time_limit"
	ReasonBudget            = "budget"
	ReasonStalled           = "stalled"
	ReasonIdleGPU           = "idle_gpu"
	ReasonPreempted         = "preempted"
	ReasonDependencyFailed  = "dependency_failed"
	ReasonQueueTimeout      = "queue_timeout"
	ReasonExecutorLost      = "executor_lost"
	ReasonIngestMisconfig   = "ingest_misconfigured"
	ReasonApprovalDenied    = "approval_denied"
	ReasonUserStop          = "user_stop"
	ReasonAdminStop         = "admin_stop"
	ReasonControlPlaneFault = "control_plane"
)

// Retry classes: the kinds of ends that a spec can retry.
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
		ReasonCompleted:         {Succeeded, ""},
		ReasonUserError:         {Failed, ""},
		ReasonOOMHost:           {Failed, ""},
		ReasonOOMGPU:            {Failed, ""},
		ReasonGPUFault:          {Failed, RetryInfra},
		ReasonNodeLost:          {Failed, RetryInfra},
		ReasonImagePull:         {Failed, RetryInfra},
		ReasonEnvBuild:          {Failed, RetryInfra},
		ReasonStartTimeout:      {Stopped, ""},
		ReasonTimeLimit:         {Stopped, ""},
		ReasonBudget:            {Stopped, ""},
		ReasonStalled:           {Failed, ""},
		ReasonIdleGPU:           {Stopped, ""},
		ReasonPreempted:         {Failed, RetryPreempted},
		ReasonDependencyFailed:  {Failed, ""},
		ReasonQueueTimeout:      {Failed, ""},
		ReasonExecutorLost:      {Failed, RetryInfra},
		ReasonIngestMisconfig:   {Failed, ""},
		ReasonApprovalDenied:    {Stopped, ""},
		ReasonUserStop:          {Stopped, ""},
		ReasonAdminStop:         {Stopped, ""},
		ReasonControlPlaneFault: {Failed, RetryInfra},
	}
}

// retries reports whether the job's spec retries this reason and retries are left.
func (j *Job) retries(reason string) bool {
	class := EndReasons()[reason].Class
	return class != "" && j.Retries < j.RetryMax && (j.RetryOn == nil || slices.Contains(j.RetryOn, class))
}
