package k8s

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// judge returns all faults of a kustomization's objects.
func judge(from filesys.FileSystem, name string) (problems []string, objects []runtime.Object) {
	documents, err := build(from, name)
	if err != nil {
		return []string{err.Error()}, nil
	}
	for _, document := range documents {
		object, said := create(document)
		problems = append(problems, said...)
		if object != nil {
			objects = append(objects, object)
		}
	}
	if len(problems) > 0 { // refused objects are judged no further
		return problems, objects
	}
	return planOf(objects).broken(), objects
}

func TestManifests(t *testing.T) {
	t.Parallel()
	from := sources(t)
	for name, most := range map[string]int{"polling": 4, "intents": 8, "explore": 1} {
		problems, objects := judge(from, name)
		for _, problem := range problems {
			t.Errorf("%s: %s", name, problem)
		}
		if len(objects) != most {
			t.Errorf("%s makes %d objects, want %d", name, len(objects), most)
		}
	}
}

// Each rule must be able to fail. Each case changes one source and has the expected problem.
func TestChangesAreRefused(t *testing.T) {
	t.Parallel()
	const nodes, common, api, worker, job = "polling/nodes.yaml", "common/node.yaml", "intents/api.yaml", "intents/worker.yaml", "explore/job.yaml"
	for name, c := range map[string]struct{ path, old, new, want string }{
		// The API server refuses these, or warns of them.
		"a field that nobody knows": {nodes, "minReadySeconds:", "minReadySecond:", `unknown field "spec.minReadySecond"`},
		"one deep inside":           {common, "httpGet:\n              path: /readyz", "httpget:\n              path: /readyz", `unknown field`},
		"a wrong type":              {nodes, "replicas: 3", `replicas: "3"`, "spec.replicas"},
		"a misspelt enum":           {common, "type: RuntimeDefault", "type: RuntimeDefaults", "seccompProfile.type"},
		"another misspelt enum":     {common, "whenUnsatisfiable: ScheduleAnyway", "whenUnsatisfiable: scheduleAnyway", "whenUnsatisfiable"},
		"a quantity":                {common, "memory: 128Mi", "memory: 128MiB", "quantities must match"},
		"a request over its limit":  {common, "memory: 64Mi", "memory: 256Mi", "must be less than or equal to memory limit"},
		"a field twice":             {nodes, "replicas: 3", "replicas: 3\n  replicas: 4", "replicas"},
		"a field in another kind":   {nodes, "policyTypes: [Ingress]", "policyTypes: [Ingress]\n  minAvailable: 1", "unknown field"},
		"a kind that nobody knows":  {nodes, "kind: NetworkPolicy", "kind: NetworkPolice", "NetworkPolice"},
		"a version that is gone":    {nodes, "apiVersion: policy/v1\n", "apiVersion: policy/v1beta0\n", "policy/v1beta0"},
		"a rollout that stands":     {common, "maxSurge: 1", "maxSurge: 0", "may not be 0 when `maxSurge` is 0"},
		"a selector of others":      {nodes, "    matchLabels: *labels\n  template", "    matchLabels: {a: b}\n  template", "`selector` does not match template"},
		"a volume that is not":      {common, "- name: redis\n              mountPath", "- name: radis\n              mountPath", "volumeMounts"},
		"a label of no form":        {api, `leasestorm-client: "true"`, `leasestorm-client: "?"`, "podSelector"},
		"a job without an end":      {job, "restartPolicy: Never", "restartPolicy: Always", "restartPolicy"},
		"an action of no job":       {job, "action: Ignore", "action: Ignored", "podFailurePolicy"},
		"a Service of no port":      {api, "port: 80\n", "port: 0\n", "spec.ports[0].port"},
		"a misspelt protocol":       {api, "port: 80\n", "port: 80\n      protocol: tcp\n", "protocol"},

		// Pod Security Standards forbid these.
		"root":              {common, "runAsUser: 65532", "runAsUser: 0", "runAsUser=0"},
		"perhaps root":      {common, "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot != true"},
		"capabilities":      {common, "drop: [ALL]", "drop: [NET_RAW]", "unrestricted capabilities"},
		"privileges":        {common, "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "allowPrivilegeEscalation != false"},
		"an open seccomp":   {job, "type: RuntimeDefault", "type: Unconfined", "seccompProfile"},
		"a file system":     {common, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "root file system"},
		"a token":           {common, "automountServiceAccountToken: false", "automountServiceAccountToken: true", "token"},
		"Services' links":   {common, "enableServiceLinks: false", "enableServiceLinks: true", "variables"},
		"a token for a job": {job, "automountServiceAccountToken: false", "automountServiceAccountToken: true", "token"},

		// Only this project's rules forbid these.
		"a flag that nobody knows":      {nodes, "--drain=10s", "--drian=10s", "unknown flag: --drian"},
		"a flag that cannot be read":    {nodes, "--stuck=10s", "--stuck=10", "invalid argument"},
		"a flag of another system":      {worker, "--tuners=4", "--tuners=4, --poll=5s", "unknown flag: --poll"},
		"a flag of no exploration":      {job, "--keep-going", "--keep-on", "unknown flag: --keep-on"},
		"a variable that nobody knows":  {common, "LEASESTORM_NODE", "LEASESTORM_NAME", "does not know LEASESTORM_NAME"},
		"one in the ConfigMap":          {"polling/kustomization.yaml", "LEASESTORM_TARGET_URL", "LEASESTORM_TARGET", "does not know LEASESTORM_TARGET"},
		"a reference to no variable":    {job, "job/$(SHARDS)", "job/$(SHARD)", "no such variable"},
		"no time to drain":              {nodes, "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 30", "takes up to 31s"},
		"more to drain":                 {nodes, "--drain=10s", "--drain=30s", "takes up to 51s"},
		"the default of the TTL":        {nodes, "[--ttl=30s, --poll=5s, --drain=10s, --stuck=10s]", "[--poll-timeout=26s]", "takes up to 47s"},
		"no time for pipelines":         {worker, "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 41", "takes up to 41s"},
		"a longer wait":                 {api, "seconds: 5", "seconds: 29", "takes up to 31s"},
		"a wait for nobody":             {nodes, "args:", "lifecycle: {preStop: {sleep: {seconds: 5}}}\n          args:", "preStop: true, a Service leads to it: false"},
		"liveness that asks Redis":      {common, "path: /healthz", "path: /readyz", "one probe must ask /healthz"},
		"a probe of another port":       {common, "containerPort: 9480", "containerPort: 9481", `port health, the node answers at ":9480"`},
		"a probe of no port":            {common, "port: health\n            periodSeconds: 5", "port: healthy\n            periodSeconds: 5", "port healthy"},
		"an API at another port":        {api, "--api=:8080", "--api=:8081", `the port api is not ":8081"`},
		"a Service of another port":     {api, "targetPort: api", "targetPort: http", "port http is not declared"},
		"a policy of another port":      {api, "        - port: api", "        - port: http", "port http is not declared"},
		"nobody may be evicted":         {worker, "maxUnavailable: 1", "maxUnavailable: 0", "one at least may"},
		"all may be evicted":            {api, "maxUnavailable: 1", "maxUnavailable: 2", "one at least stays"},
		"no image of a version":         {"common/kustomization.yaml", "newTag: v0.1.0", "newTag: latest", "is not pinned"},
		"no version of an exploration":  {"explore/kustomization.yaml", "leasestorm/simulate", "leasestorm/simulator", "is not pinned"},
		"a password that is not there":  {common, "value: /run/secrets/redis/password", "value: /run/secrets/password", "nothing is mounted"},
		"tokens that all may read":      {api, "defaultMode: 0440", "defaultMode: 0444", "of mode 0440"},
		"tokens that stay as they were": {api, "mountPath: /run/secrets/tokens", "subPath: tokens\n              mountPath: /run/secrets/tokens", "without a subPath"},
		"Secrets that only root reads":  {common, "fsGroup: 65532 #", "#", "with an fsGroup"},
		"memory without an end":         {common, "limits:\n              memory: 128Mi", "limits: {}", "memory is limited"},
		"a throttled node":              {common, "limits:\n", "limits:\n              cpu: 1\n", "a node's cpu is not"},
		"a shard too few":               {job, `value: "8"`, `value: "9"`, "8 pods for 9 shards"},
		"spread over other pods":        {common, "app.kubernetes.io/name: leasestorm", "app.kubernetes.io/name: leasestrom", "counts other pods"},
		"a budget for nobody":           {worker, "selector:\n    matchLabels:\n      app.kubernetes.io/name: leasestorm", "selector:\n    matchLabels:\n      app.kubernetes.io/name: other", "selects no workload"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := sources(t)
			change(t, from, c.path, c.old, c.new)
			kustomization, _, _ := strings.Cut(c.path, "/")
			if kustomization == "common" {
				kustomization = "polling"
			}
			problems, _ := judge(from, kustomization)
			if said := strings.Join(problems, "\n"); !strings.Contains(said, c.want) {
				t.Errorf("said %q, want %q", said, c.want)
			}
		})
	}
}
