"""torchvision: classification, segmentation, detection, video, optical flow."""
from functools import partial

import torch
from torch import nn
from torchvision.models import (convnext, densenet, efficientnet, googlenet, inception, maxvit, mnasnet, mobilenet, mobilenetv3, regnet,
                                resnet, segmentation, shufflenetv2, squeezenet, swin_transformer, vgg, vision_transformer)
from torchvision.models import alexnet, detection, optical_flow, video
from torchvision.models._utils import IntermediateLayerGetter

from entry import Call, add, floats, image


def vision(name, build, inputs, loss="cross_entropy", **options):
    add("tv_" + name, "torchvision", build, inputs, loss=loss, **options)


def narrow_classifier(model, features, hidden=32):
    """The two hidden layers of 4096 units of AlexNet and VGG, made small."""
    model.avgpool = nn.AdaptiveAvgPool2d(1)
    model.classifier = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(True), nn.Dropout(0.0), nn.Linear(hidden, hidden),
                                     nn.ReLU(True), nn.Dropout(0.0), nn.Linear(hidden, 5))
    return model


# ---- classification
vision("alexnet", lambda: narrow_classifier(alexnet(num_classes=5), 256), image(64))
VGG = [8, "M", 16, "M", 16, 32, "M", 32, "M"]
vision("vgg11", lambda: narrow_classifier(vgg.VGG(vgg.make_layers(VGG), num_classes=5), 32), image(64))
vision("vgg11_bn", lambda: narrow_classifier(vgg.VGG(vgg.make_layers(VGG, batch_norm=True), num_classes=5), 32), image(64))
vision("resnet18", lambda: resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=5, zero_init_residual=True), image(64))
vision("resnext50_32x4d", lambda: resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], num_classes=5, groups=8, width_per_group=4), image(64))
vision("wide_resnet50_2", lambda: resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], num_classes=5, width_per_group=24), image(64))
vision("densenet121", lambda: densenet.DenseNet(8, (2, 2, 2, 2), 16, num_classes=5), image(64))
vision("densenet_efficient", lambda: densenet.DenseNet(8, (2, 2), 16, num_classes=5, memory_efficient=True), image(64))
vision("mobilenet_v2", lambda: mobilenet.mobilenet_v2(width_mult=0.25, num_classes=5), image(64))
vision("mobilenet_v3_small", lambda: mobilenetv3.mobilenet_v3_small(width_mult=0.25, num_classes=5), image(64))
vision("mobilenet_v3_large", lambda: mobilenetv3.mobilenet_v3_large(width_mult=0.25, num_classes=5), image(64))
vision("shufflenet_v2_x0_5", lambda: shufflenetv2.ShuffleNetV2([1, 2, 1], [24, 32, 48, 64, 96], num_classes=5), image(64))
vision("squeezenet1_0", lambda: squeezenet.squeezenet1_0(num_classes=5), image(64))
vision("squeezenet1_1", lambda: squeezenet.squeezenet1_1(num_classes=5), image(64))
vision("mnasnet0_5", lambda: mnasnet.MNASNet(0.2, num_classes=5), image(64))
vision("efficientnet_b0", lambda: efficientnet.EfficientNet(efficientnet._efficientnet_conf(
    "efficientnet_b0", width_mult=0.25, depth_mult=0.3)[0], 0.0, 0.0, 5), image(64))
vision("efficientnet_v2_s", lambda: efficientnet.EfficientNet([
    efficientnet.FusedMBConvConfig(1, 3, 1, 8, 8, 1), efficientnet.FusedMBConvConfig(4, 3, 2, 8, 16, 1),
    efficientnet.MBConvConfig(4, 3, 2, 16, 24, 1), efficientnet.MBConvConfig(6, 3, 2, 24, 32, 1)], 0.0, 0.0, 5,
    norm_layer=partial(nn.BatchNorm2d, eps=1e-3), last_channel=64), image(64))
vision("googlenet", lambda: googlenet(num_classes=5, init_weights=False), image(96),
       {"y": "cross_entropy", "aux2": "cross_entropy*0.3", "aux1": "cross_entropy*0.3"}, outputs=("y", "aux2", "aux1"))
vision("inception_v3", lambda: inception.Inception3(num_classes=5, aux_logits=False, init_weights=False), image(107))
for kind, ratio in (("x", None), ("y", 0.25)):
    vision(f"regnet_{kind}_400mf", lambda ratio=ratio: regnet.RegNet(regnet.BlockParams.from_init_params(
        depth=6, w_0=8, w_a=8.0, w_m=2.0, group_width=8, se_ratio=ratio), num_classes=5), image(64))
vision("convnext_tiny", lambda: convnext.ConvNeXt([convnext.CNBlockConfig(8, 16, 1), convnext.CNBlockConfig(16, 24, 1),
                                                   convnext.CNBlockConfig(24, None, 1)], num_classes=5), image(64))
vision("vit_b_16", lambda: vision_transformer.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5), image(32))
vision("swin_t", lambda: swin_transformer.SwinTransformer([4, 4], 8, [2, 2], [2, 2], [4, 4], num_classes=5), image(32))
vision("swin_v2_t", lambda: swin_transformer.SwinTransformer(
    [4, 4], 8, [2, 2], [2, 2], [4, 4], num_classes=5, block=swin_transformer.SwinTransformerBlockV2,
    downsample_layer=swin_transformer.PatchMergingV2), image(32))
vision("swin_t_padded", lambda: swin_transformer.SwinTransformer([4, 4], 8, [2, 2], [2, 2], [4, 4], num_classes=5), image((44, 36)))
vision("maxvit_t", lambda: maxvit.MaxVit((64, 64), 8, 2, [8, 16], [1, 1], 4, 0.0, num_classes=5), image(64))

# ---- segmentation
SEGMENTS = {"out": "cross_entropy", "aux": "cross_entropy*0.5"}


def narrow_resnet(dilated=True):
    return resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], groups=4, width_per_group=4,
                         replace_stride_with_dilation=[False, dilated, dilated])


class NarrowFeatures(nn.Module):
    """The features of a narrowed ResNet with 2048 and 1024 channels cut to 64 and 32, as heads expect them by name."""

    def __init__(self):
        super().__init__()
        self.body = IntermediateLayerGetter(narrow_resnet(), {"layer3": "aux", "layer4": "out"})
        self.out, self.aux = nn.Conv2d(2048, 64, 1), nn.Conv2d(1024, 32, 1)

    def forward(self, x):
        y = self.body(x)
        return {"out": self.out(y["out"]), "aux": self.aux(y["aux"])}


def named(model):
    return Call(model, lambda m, x: tuple(m(x)[key] for key in ("out", "aux")))


vision("fcn_resnet50", lambda: named(segmentation.FCN(NarrowFeatures(), segmentation.fcn.FCNHead(64, 5), segmentation.fcn.FCNHead(32, 5))),
       image(64), SEGMENTS, outputs=("out", "aux"))
vision("deeplabv3_resnet50", lambda: named(segmentation.DeepLabV3(
    NarrowFeatures(), segmentation.deeplabv3.DeepLabHead(64, 5, (2, 4, 6)), segmentation.fcn.FCNHead(32, 5))), image(64), SEGMENTS,
    outputs=("out", "aux"))
vision("lraspp_mobilenet_v3_large", lambda: Call(segmentation.lraspp_mobilenet_v3_large(
    weights=None, weights_backbone=None, num_classes=5), lambda m, x: m(x)["out"]), image(64), outputs=("out",))

# ---- detection: the trained part, without anchors' matching and without the choice of boxes
def heads(build):
    """Backbone and head of a one-stage detector: all class scores and box offsets."""
    def forward(m, x):
        features = m.backbone(x)
        features = list(features.values()) if isinstance(features, dict) else [features]
        return tuple(m.head(features)[key] for key in ("cls_logits", "bbox_regression"))
    return lambda: Call(build(), forward)


BOXES = {"scores": "mse", "boxes": "l1*0.5"}


def fpn(trainable=5):
    return detection.backbone_utils._resnet_fpn_extractor(narrow_resnet(False), trainable, returned_layers=[2, 3, 4], extra_blocks=None)


vision("retinanet", heads(lambda: detection.RetinaNet(fpn(), 3)), image(64), BOXES, outputs=("scores", "boxes"))
vision("fcos", heads(lambda: detection.FCOS(fpn(), 3, anchor_generator=detection.anchor_utils.AnchorGenerator(
    ((8,), (16,), (32,)), ((1.0,),) * 3))), image(64), BOXES, outputs=("scores", "boxes"))
vision("ssdlite", heads(lambda: detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)), image(96),
       BOXES, outputs=("scores", "boxes"))
vision("rpn", lambda: Call(nn.ModuleList([fpn(), detection.rpn.RPNHead(256, 1)]), lambda m, x: tuple(
    torch.cat([t.flatten(1) for t in part], 1) for part in m[1](list(m[0](x).values())))), image(64), BOXES, outputs=("scores", "boxes"))


def small_faster_rcnn():
    anchors = detection.anchor_utils.AnchorGenerator(((8,), (16,), (32,), (64,)), ((1.0,),) * 4)
    return detection.FasterRCNN(fpn(), 3, min_size=64, max_size=64, rpn_anchor_generator=anchors, box_detections_per_img=5,
                                rpn_pre_nms_top_n_test=20, rpn_post_nms_top_n_test=5)


class Detector(nn.Module):
    """The whole detector with its choice of boxes."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        found = self.m([x[0]])[0]
        return found["scores"], found["boxes"]


vision("faster_rcnn", lambda: Detector(small_faster_rcnn()), image(64, 1), {"scores": "sum"}, outputs=("scores", "boxes"), modes=("eval",))

# ---- video
CLIP = floats(2, 3, 4, 32, 32)
for kind, convs in (("r3d", [video.resnet.Conv3DSimple] * 4),
                    ("mc3", [video.resnet.Conv3DSimple] + [video.resnet.Conv3DNoTemporal] * 3),
                    ("r2plus1d", [video.resnet.Conv2Plus1D] * 4)):
    stem = video.resnet.R2Plus1dStem if kind == "r2plus1d" else video.resnet.BasicStem
    vision(kind + "_18", lambda convs=convs, stem=stem: video.resnet.VideoResNet(
        video.resnet.BasicBlock, convs, [1, 1, 1, 1], stem, num_classes=5), CLIP)


def small_clip_s3d():
    model = video.S3D(num_classes=5)
    model.avgpool = nn.AvgPool3d((2, 2, 2))
    return model


vision("s3d", small_clip_s3d, floats(2, 3, 16, 64, 64))
for version in (1, 2):
    options = {} if version == 1 else dict(residual_pool=True, residual_with_cls_embed=False, rel_pos_embed=True, proj_after_attn=True)
    size = dict(num_heads=1, input_channels=8, output_channels=16, kernel_q=[], kernel_kv=[3, 3, 3], stride_q=[], stride_kv=[1, 2, 2])
    more = dict(num_heads=2, input_channels=16, output_channels=16, kernel_q=[3, 3, 3], kernel_kv=[3, 3, 3], stride_q=[1, 2, 2],
                stride_kv=[1, 1, 1])
    vision(f"mvit_v{version}", lambda options=options, size=size, more=more: video.MViT(
        (16, 16), 4, [video.mvit.MSBlockConfig(**size), video.mvit.MSBlockConfig(**more)], residual_pool=options.get("residual_pool", False),
        residual_with_cls_embed=options.get("residual_with_cls_embed", True), rel_pos_embed=options.get("rel_pos_embed", False),
        proj_after_attn=options.get("proj_after_attn", False), num_classes=5), floats(2, 3, 4, 16, 16))
vision("swin3d_t", lambda: video.SwinTransformer3d([2, 4, 4], 8, [2, 2], [2, 2], [2, 4, 4], num_classes=5), floats(2, 3, 4, 32, 32))

# ---- optical flow
vision("raft_small", lambda: Call(optical_flow.raft_small(weights=None), lambda m, a, b: m(a, b, num_flow_updates=2)[-1]),
       lambda: {"a": torch.randn(1, 3, 128, 128), "b": torch.randn(1, 3, 128, 128)}, "l1")
