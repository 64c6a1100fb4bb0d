import { useTranslation } from "react-i18next";
import { Button, CodeBlock, Dialog } from "@/ui";

// ShownOnce shows a secret that the server returns only once.
export function ShownOnce({ title, secret, onClose }: { title: string; secret: string; onClose: () => void }) {
  const { t } = useTranslation("admin");
  return (
    <Dialog
      open
      sticky
      onOpenChange={(open) => !open && onClose()}
      title={title}
      description={t("passwordOnce")}
      footer={
        <Button variant="primary" onClick={onClose}>
          {t("done")}
        </Button>
      }
    >
      <CodeBlock code={secret} label={t("password")} />
    </Dialog>
  );
}
