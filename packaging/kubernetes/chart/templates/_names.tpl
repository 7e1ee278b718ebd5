{{- define "redlock.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "redlock.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "redlock.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- /* Every client of a lock needs these very URLs: a server that lost its data is recognised by its URL. The dot at the end keeps the
       search domains out: one look-up for each name, also while a pod is away. */ -}}
{{- define "redlock.url" -}}
{{- with .root -}}
redis{{ if (.Values.tls).secretName }}s{{ end }}://{{ .Release.Name }}-{{ $.number }}.{{ .Release.Name }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}.
{{- end -}}
{{- end }}

{{- define "redlock.conf" -}}
{{- range $number := until (int .Values.nodes) -}}
nodes = {{ include "redlock.url" (dict "root" $ "number" $number) }}
{{ end -}}
mode = guarded
ttl-max = {{ .Values.ttlMax }}
node-user = locks
node-password-file = /etc/redlock/password
{{- if (.Values.tls).secretName }}
tls-ca-file = /etc/redlock/ca.crt
{{- end }}
{{- end }}

{{- /* ttlMax and a little more: how long the quorum takes. */ -}}
{{- define "redlock.seconds" -}}
{{- div (add (include "redlock.ms" .Values.ttlMax | int64) 999) 1000 | add 1 -}}
{{- end }}

{{- /* What each client mounts at /etc/redlock: the configuration, and the password in a file that may change at any time. */ -}}
{{- define "redlock.clientVolume" -}}
name: redlock
projected:
  defaultMode: 0440
  sources:
    - configMap:
        name: {{ .Release.Name }}
    - secret:
        name: {{ .Values.secret }}
        items:
          - key: password
            path: password
    {{- with (.Values.tls).secretName }}
    - secret:
        name: {{ . }}
        items:
          - key: ca.crt
            path: ca.crt
    {{- end }}
{{- end }}
