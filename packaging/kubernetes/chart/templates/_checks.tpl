{{- /* A duration as redlock reads it, in milliseconds. */ -}}
{{- define "redlock.ms" -}}
{{- $units := dict "ms" 1 "" 1000 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- mulf (regexFind "^[0-9.]+" . | float64) (get $units (regexFind "[a-z]*$" .)) | ceil | int64 -}}
{{- end }}

{{- define "redlock.exec" -}}
kubectl -n {{ .Release.Namespace }} exec deploy/{{ .Release.Name }}-exporter -- redlock
{{- end }}

{{- define "redlock.checkValues" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$" .Release.Name) -}}
{{- fail (printf "the release '%s' cannot give its name to a Service: begin with a letter, then use letters, digits and '-', 52 at most" .Release.Name) -}}
{{- end -}}
{{- $ms := include "redlock.ms" .Values.ttlMax | int64 -}}
{{- if or (lt $ms 10) (gt $ms 86400000) -}}
{{- fail (printf "ttlMax is %s; it is from 10ms to 24h" .Values.ttlMax) -}}
{{- end -}}
{{- if gt (mul .Values.ttlSeconds 1000) $ms -}}
{{- fail (printf "ttlSeconds is %v, and no lock lasts longer than ttlMax (%s): set ttlSeconds, too" .Values.ttlSeconds .Values.ttlMax) -}}
{{- end -}}
{{- end }}

{{- /* If all servers are lost, init waits for this time: after a shorter one a lock could have two holders. */ -}}
{{- define "redlock.checkTtlMax" -}}
{{- $before := regexFind "[^ =]+$" (regexFind "(?m)^ *ttl-max *= *[^ \n]+" .conf) -}}
{{- with .root -}}
{{- if and $before (lt (include "redlock.ms" .Values.ttlMax | int64) (include "redlock.ms" $before | int64)) -}}
{{- fail (printf "ttlMax is %s in this release, and %s is shorter: if all servers were lost, init would wait too short a time, and a lock could have two holders. Keep ttlMax=%s, and lower the quorum's own: %s quorum set-ttl-max --yes %s" $before .Values.ttlMax $before (include "redlock.exec" .) .Values.ttlMax) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Clients know a server by its URL, and all servers change theirs at once: with TLS, or in another domain. */ -}}
{{- define "redlock.checkUrls" -}}
{{- $root := .root -}}
{{- $before := regexFindAll "(?m)^ *nodes *=.*$" .conf -1 -}}
{{- range $number := until (int (min (len $before) $root.Values.nodes)) -}}
{{- $old := index $before $number | nospace | trimPrefix "nodes=" -}}
{{- $new := include "redlock.url" (dict "root" $root "number" $number) -}}
{{- if ne $old $new -}}
{{- fail (printf "%s would become %s, and all locks would be lost. Stop the programs that take locks, then: helm -n %s uninstall %s; sleep %v; and install it again with these values" $old $new $root.Release.Namespace $root.Release.Name (include "redlock.seconds" $root)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* A server that ends as a member takes its vote with it, and the locks that rest on it. */ -}}
{{- define "redlock.checkNodes" -}}
{{- $root := .root -}}
{{- $nodes := int $root.Values.nodes -}}
{{- if lt $nodes .running -}}
{{- $steps := list -}}
{{- range $number := untilStep (int (sub .running 1)) (int (sub $nodes 1)) -1 -}}
{{- $steps = append $steps (printf "%s quorum remove --yes %s" (include "redlock.exec" $root) (include "redlock.url" (dict "root" $root "number" $number))) -}}
{{- end -}}
{{- $steps = append $steps (printf "kubectl -n %s scale statefulset/%s --replicas=%d" $root.Release.Namespace $root.Release.Name $nodes) -}}
{{- fail (printf "%d servers run, and nodes is %d: the others are members, and locks rest on them. First: %s" .running $nodes (join " && " $steps)) -}}
{{- end -}}
{{- end }}

{{- /* Against what the release has now. Without a cluster (helm template) there is nothing to look up. */ -}}
{{- define "redlock.check" -}}
{{- include "redlock.checkValues" . -}}
{{- $conf := lookup "v1" "ConfigMap" .Release.Namespace .Release.Name | dig "data" "redlock.conf" "" -}}
{{- $running := lookup "apps/v1" "StatefulSet" .Release.Namespace .Release.Name | dig "spec" "replicas" 0 | int -}}
{{- include "redlock.checkTtlMax" (dict "root" . "conf" $conf) -}}
{{- include "redlock.checkUrls" (dict "root" . "conf" $conf) -}}
{{- include "redlock.checkNodes" (dict "root" . "running" $running) -}}
{{- end }}
