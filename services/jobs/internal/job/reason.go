package job

import "slices"

// End reasons, a closed list: why a job or an attempt ended. Those that no part of this installation can
// cause yet stand in the list all the same: a reader of the API meets no other.
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

// Retry classes: what kind of end a spec has tried again.
const (
	RetryInfra     = "infra"
	RetryPreempted = "preempted"
)

// Where a further attempt begins.
const (
	ResumeLatest = "latest"
	ResumeNone   = "none"
)

// Fate is what an end reason means: the state that it leads to, and the class in which it is tried again,
// empty where it never is.
type Fate struct {
	State State
	Class string
}

// Fates is the table of all end reasons.
func Fates() map[string]Fate {
	return map[string]Fate{
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

// retries says whether the job's spec has an end of this reason tried again, and tries are left.
func (j *Job) retries(reason string) bool {
	class := Fates()[reason].Class
	return class != "" && j.Retries < j.RetryMax && (j.RetryOn == nil || slices.Contains(j.RetryOn, class))
}
