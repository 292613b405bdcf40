{{- /* aerie.yaml: the config of the values, with the paths of the secrets and where to listen. */ -}}
{{- define "aerie.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- range $key := keys .Values.secrets | sortAlpha -}}
  {{- $section := $config -}}
  {{- range initial (splitList "." $key) -}}
    {{- if not (index $section .) -}}{{- $_ := set $section . (dict) -}}{{- end -}}
    {{- $section = index $section . -}}
  {{- end -}}
  {{- $_ := set $section (last (splitList "." $key)) (printf "/etc/aerie/secrets/%s" $key) -}}
{{- end -}}
{{- $server := default (dict) $config.server -}}
{{- $_ := set $server "listen" (printf "0.0.0.0:%d" (int .Values.coordinator.port)) -}}
{{- $_ := set $config "server" $server -}}
{{- $worker := default (dict) $config.worker -}}
{{- $_ := set $worker "listen" (printf "0.0.0.0:%d" (int .Values.worker.port)) -}}
{{- $_ := set $config "worker" $worker -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "aerie.slots" -}}
{{- dig "build" "slots" 8 .Values.config | int -}}
{{- end -}}

{{- /* The whole seconds of a duration such as 1h2m3s or 1.5s, rounded up. */ -}}
{{- define "aerie.seconds" -}}
{{- $total := 0.0 -}}
{{- range regexFindAll "[0-9.]+(h|ms|m|s)" . -1 -}}
  {{- $unit := regexFind "[a-z]+" . -}}
  {{- $total = addf $total (mulf (trimSuffix $unit . | float64) (index (dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001) $unit)) -}}
{{- end -}}
{{- ceil $total | int -}}
{{- end -}}

{{- define "aerie.grace" -}}
{{- $grace := include "aerie.seconds" (dig "worker" "grace" "60s" .Values.config) | int -}}
{{- add $grace (int .Values.worker.terminationMargin) -}}
{{- end -}}

{{- /* The most workers that there may be. */ -}}
{{- define "aerie.maxWorkers" -}}
{{- with .Values.worker -}}
{{- if .keda.enabled }}{{ int .keda.maxReplicas }}{{ else if .hpa.enabled }}{{ int .hpa.maxReplicas }}{{ else if kindIs "invalid" .replicas }}2{{ else }}{{ int .replicas }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* The ports of an address, or of several with commas, as JSON: {"ports": [4222]}. */ -}}
{{- define "aerie.ports" -}}
{{- $ports := list -}}
{{- $scheme := regexFind "^[a-z]+://" .url -}}
{{- range splitList "," (regexReplaceAll "^[a-z]+://" .url "") -}}
  {{- $authority := regexReplaceAll "^[a-z]+://" (trim .) "" | splitList "/" | first | splitList "@" | last -}}
  {{- $port := regexFind ":[0-9]+$" $authority | trimPrefix ":" -}}
  {{- $ports = append $ports (ternary (index $.defaults $scheme) (int $port) (eq $port "")) -}}
{{- end -}}
{{- dict "ports" (uniq $ports) | toJson -}}
{{- end -}}
